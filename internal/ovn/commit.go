package ovn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovsdb"
)

const (
	// maxGroup is how many Services share a transaction. More make it hardly faster, and
	// each takes longer.
	maxGroup = 100
	// commitTimeout is how long a plan may wait for its turn, and how long a transaction
	// may take.
	commitTimeout = 10 * time.Second
)

// job is the plan of one Service that waits to be committed.
type job struct {
	plan lb.Plan
	done chan<- committed
}

type committed struct {
	cfg int64
	err error
}

// Commit makes the plan of a Service, by namespace/name, real: all of it, or nothing. cfg
// is for Programmed. Plans that wait while transactions are under way share the next one.
// An error that is not ErrUnavailable says that the database is not as the plan assumes;
// the next look sees how it is. After ErrUnavailable the plan may be real all the same:
// nobody can look until all rows were read again. ctx ends only the wait for a turn: who
// gives up later could take an address for free whose row is about to be written.
func (d *DB) Commit(ctx context.Context, key string, p lb.Plan) (cfg int64, err error) {
	turn, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	d.writing(key, 1)
	defer d.writing(key, -1)
	done := make(chan committed, 1)
	select {
	case d.jobs <- job{p, done}:
	case <-turn.Done():
		return 0, fmt.Errorf("%w: commit: %w", ErrUnavailable, context.Cause(turn))
	}
	c := <-done
	if c.err == nil {
		d.settled(key)
	}
	return c.cfg, c.err
}

// writing counts commits of a Service. Changes that came meanwhile are looked at when the
// last one is done: most are its own.
func (d *DB) writing(key string, by int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.interests.all[key]
	if in == nil {
		return
	}
	if in.writing += by; in.writing == 0 && in.touched {
		in.touched = false
		d.news.dirty[key] = struct{}{}
		d.announce()
	}
}

func (d *DB) settled(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if in := d.interests.all[key]; in != nil {
		in.settled = !in.blocked
	}
}

// write commits what waits until ctx ends. Two transactions are under way at a time, so
// that the server does not wait while the next one is made.
func (d *DB) write(ctx context.Context) {
	var committing sync.WaitGroup
	defer committing.Wait()
	slots := make(chan struct{}, 2)
	for {
		var group []job
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		select {
		case <-ctx.Done():
			return
		case j := <-d.jobs:
			group = append(group, j)
		}
		for more := true; more && len(group) < maxGroup; {
			select {
			case j := <-d.jobs:
				group = append(group, j)
			default:
				more = false
			}
		}
		committing.Go(func() {
			d.commit(ctx, group)
			<-slots
		})
	}
}

// commit makes one transaction of a group. If it is refused, its halves are tried: one
// plan that fails must not hold up the others.
func (d *DB) commit(ctx context.Context, group []job) {
	began := time.Now()
	cfg, err := d.transact(ctx, group)
	d.metrics.observe(time.Since(began), err)
	if refused, is := errors.AsType[*ovsdb.TransactionError](err); is && len(group) > 1 {
		d.log.Debug("transaction refused, its halves are tried", "services", len(group), "error", refused)
		d.commit(ctx, group[:len(group)/2])
		d.commit(ctx, group[len(group)/2:])
		return
	}
	for _, j := range group {
		j.done <- committed{cfg, err}
	}
}

func (d *DB) transact(ctx context.Context, group []job) (cfg int64, err error) {
	t := newTransaction()
	for _, j := range group {
		t.add(j.plan)
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	results, err := d.client.Transact(ctx, t.operations()...)
	if err != nil {
		return 0, err
	}
	return readCfg(results[len(results)-1])
}

// readCfg is nb_cfg as the transaction left it; 0 if the database has none, which nobody
// need wait for.
func readCfg(r ovsdb.Result) (int64, error) {
	var row struct {
		Cfg int64 `json:"nb_cfg"`
	}
	if len(r.Rows) == 0 {
		return 0, nil
	}
	if err := json.Unmarshal(r.Rows[0], &row); err != nil {
		return 0, fmt.Errorf("read nb_cfg: %w", err)
	}
	return row.Cfg, nil
}
