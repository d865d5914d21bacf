package ovn

import (
	"context"
	"maps"
	"slices"
)

// maxLooks is how many Services are looked at before those that need it are woken: when
// all rows are deleted, the first are to be written while others are still looked at.
const maxLooks = 64

// news is what Watch has to report.
type news struct {
	all     bool             // every Service is to be looked at
	dirty   set              // Services that a change may concern
	strays  set              // Services that are not watched and whose rows have changed
	waiting map[string]int64 // Services that wait for northd, with what it has to reach
}

func newNews() news { return news{dirty: set{}, strays: set{}, waiting: map[string]int64{}} }

// announce lets Watch look; d.mu is held.
func (d *DB) announce() {
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// Watch calls wake with the Services, as namespace/name, that are not as they are to be
// any more, or for which something else has changed; without any, all are meant. Changes
// that leave a Service as it is to be, such as our own, wake nobody. strayed gets Services
// that were forgotten, or never looked at, and of which a row came, changed or went all
// the same. It returns when ctx ends.
func (d *DB) Watch(ctx context.Context, wake, strayed func(services ...string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.woken:
		}
		all, some, strays := d.collect()
		switch {
		case all:
			wake()
		case len(some) > 0:
			wake(some...)
		}
		if len(strays) > 0 {
			strayed(strays...)
		}
	}
}

// collect takes the news.
func (d *DB) collect() (all bool, some, strays []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.replica == nil {
		return false, nil, nil // all are looked at when it is back
	}
	all = d.news.all
	d.news.all = false
	strays = slices.Sorted(maps.Keys(d.news.strays))
	clear(d.news.strays)
	for key, cfg := range d.news.waiting {
		if d.replica.sbCfg >= cfg {
			delete(d.news.waiting, key)
			delete(d.news.dirty, key)
			some = append(some, key)
		}
	}
	looked := 0
	for key := range d.news.dirty {
		if looked++; looked > maxLooks {
			d.announce()
			break
		}
		delete(d.news.dirty, key)
		in := d.interests.all[key]
		switch {
		case in == nil:
			strays = append(strays, key)
		case in.writing > 0:
			in.touched = true
		case !all:
			if v := Examine(&in.desired, d.replica.observe(&in.desired)); !v.Plan.Empty() || v.standing() != in.standing {
				some = append(some, key)
			}
		}
	}
	return all, some, strays
}
