package cloudsigma

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"fairlead.io/internal/cloud"
)

// Tags reads and changes tags.
type Tags struct {
	*Collection[Tag]
	changes *cloud.Batches[[]TagChange, []Tag]
	// asTexts is the form of resources that the cloud has accepted last: texts
	// instead of objects.
	asTexts atomic.Bool
}

// maxRounds is how often a change is made again because somebody else has undone
// it at the same time.
const maxRounds = 3

// tagWriters is how many tags are written at the same time.
const tagWriters = 10

func newTags(c *Collection[Tag]) *Tags {
	t := &Tags{Collection: c}
	t.changes = cloud.NewBatches(func(ctx context.Context, _ string, changes [][]TagChange) []cloud.Outcome[[]Tag] {
		return t.changeAll(ctx, changes)
	})
	return t
}

// Change makes changes and returns all tags as they were read afterwards. What is
// so already is not written. A resource is added to the tag of the name with the
// lowest UUID, which is made if there is none, and removed from all of the name.
//
// Changes that wait are made together, by one list before them, one write for each
// tag, and one list after them. What somebody else has undone in between is done
// again; if that happens time and again, the error IsIgnored. A lost answer is no
// error if the change turns out to have been made.
func (t *Tags) Change(ctx context.Context, changes ...TagChange) ([]Tag, error) {
	return t.changes.Do(ctx, "", changes)
}

func (t *Tags) changeAll(ctx context.Context, callers [][]TagChange) []cloud.Outcome[[]Tag] {
	out := make([]cloud.Outcome[[]Tag], len(callers))
	tags, err := t.Now(ctx)
	failures := map[string]error{} // by the name of the tag
	for round := 1; err == nil; round++ {
		written := false
		for _, stage := range stages(slices.Concat(callers...)) {
			writes := plan(tags, stage)
			for name := range failures { // those that will not get better
				writes = slices.DeleteFunc(writes, func(w tagWrite) bool { return w.tag.Name == name })
			}
			if len(writes) > 0 && round <= maxRounds {
				t.write(ctx, writes, failures)
				written, tags = true, done(tags, writes)
			}
			if slices.ContainsFunc(stage, func(c TagChange) bool { return failures[c.Name] != nil }) {
				break // what comes next must not be without it
			}
		}
		if !written {
			break
		}
		tags, err = t.Now(ctx)
	}
	for i, changes := range callers {
		out[i].Value = tags
		if out[i].Err = err; err != nil {
			continue
		}
		for _, c := range changes {
			if c.made(tags) {
				continue
			}
			failure := failures[c.Name]
			if failure == nil {
				failure = &IgnoredError{t.kind, fmt.Sprintf("%q", c.Name)}
			}
			out[i].Err = errors.Join(out[i].Err, failure)
		}
	}
	return out
}

// stages are changes in the order in which they are written: claims, all others, and
// the end of claims.
func stages(changes []TagChange) [3][]TagChange {
	var out [3][]TagChange
	for _, c := range changes {
		if !c.Claims {
			out[1] = append(out[1], c)
			continue
		}
		begin, end := c, c
		begin.Remove, end.Add = nil, nil
		out[0], out[2] = append(out[0], begin), append(out[2], end)
	}
	return out
}

// done are tags as they are after writes, as far as that is known.
func done(tags []Tag, writes []tagWrite) []Tag {
	out := slices.Clone(tags)
	for _, w := range writes {
		if i := slices.IndexFunc(out, func(t Tag) bool { return t.UUID == w.tag.UUID }); i >= 0 && !w.remove {
			out[i] = w.tag
		}
	}
	return out
}

// tagWrite is a tag as it is to be: one without a UUID is made.
type tagWrite struct {
	tag    Tag
	remove bool // the tag itself
}

// plan is what has to be written so that all changes are made.
func plan(tags []Tag, changes []TagChange) []tagWrite {
	byName := map[string][]Tag{}
	for _, tag := range tags {
		byName[tag.Name] = append(byName[tag.Name], tag)
	}
	var names []string
	add, remove, deleteEmpty := map[string][]string{}, map[string][]string{}, map[string]bool{}
	for _, c := range changes {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
		add[c.Name] = append(add[c.Name], c.Add...)
		remove[c.Name] = append(remove[c.Name], c.Remove...)
		deleteEmpty[c.Name] = deleteEmpty[c.Name] || c.DeleteEmpty
	}
	var out []tagWrite
	for _, name := range names {
		same := byName[name]
		slices.SortFunc(same, func(a, b Tag) int { return compare(a.UUID, b.UUID) })
		missing := slices.DeleteFunc(unique(add[name]), func(r string) bool {
			return slices.ContainsFunc(same, func(t Tag) bool { return t.Has(r) })
		})
		if len(same) == 0 && len(missing) > 0 {
			out = append(out, tagWrite{tag: Tag{Name: name, Resources: missing}})
			continue
		}
		for i, tag := range same {
			now := slices.DeleteFunc(slices.Clone(tag.Resources), func(r string) bool {
				return slices.Contains(remove[name], r) && !slices.Contains(add[name], r)
			})
			if i == 0 {
				now = append(now, missing...)
			}
			if slices.Equal(now, tag.Resources) {
				continue
			}
			gone := len(now) == 0 && deleteEmpty[name]
			tag.Resources = now
			out = append(out, tagWrite{tag, gone})
		}
	}
	return out
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func unique(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	return slices.Compact(all)
}

// write does all writes at the same time, and notes what has failed for good.
// What may have been done is seen in the next list.
func (t *Tags) write(ctx context.Context, writes []tagWrite, failures map[string]error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	free := make(chan struct{}, tagWriters)
	for _, w := range writes {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			err := t.writeOne(ctx, w)
			if err == nil || cloud.IsNotFound(err) {
				return // gone since the list: planned again
			}
			mu.Lock()
			defer mu.Unlock()
			failures[w.tag.Name] = err
		})
	}
	all.Wait()
}

func (t *Tags) writeOne(ctx context.Context, w tagWrite) error {
	if w.remove {
		path, err := t.one(w.tag.UUID)
		if err != nil {
			return err
		}
		return t.transport.Do(ctx, cloud.Call{Method: http.MethodDelete, Kind: t.kind, Path: path})
	}
	asTexts := t.asTexts.Load()
	err := t.send(ctx, &w.tag, asTexts)
	if !cloud.IsInvalid(err) {
		return err
	}
	if again := t.send(ctx, &w.tag, !asTexts); again != nil {
		return err
	}
	t.asTexts.Store(!asTexts)
	return nil
}

// send writes a tag, or makes it. What comes back is not looked at.
func (t *Tags) send(ctx context.Context, tag *Tag, asTexts bool) error {
	body := tag.definition(asTexts)
	if tag.UUID == "" {
		return t.transport.Do(ctx, cloud.Call{Method: http.MethodPost, Kind: t.kind, Path: t.path, In: map[string]any{"objects": []any{body}}})
	}
	path, err := t.one(tag.UUID)
	if err != nil {
		return err
	}
	return t.transport.Do(ctx, cloud.Call{Method: http.MethodPut, Kind: t.kind, Path: path, In: body})
}
