package cloudsigma

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.io/internal/cloud"
)

// Tags reads and changes tags.
type Tags struct {
	*Collection[Tag]
	changes *cloud.Batches[[]TagChange, []Tag]
	// asTexts is the form of resources that the cloud has accepted last: texts
	// instead of objects.
	asTexts atomic.Bool
	// detailed is where lists have the resources: below detail/. The cloud's
	// documentation says so, its examples say that they do not have them there.
	detailed atomic.Bool
}

// maxRounds is how often a change is made again because somebody else has undone
// it at the same time.
const maxRounds = 3

// tagWriters is how many tags are written at the same time.
const tagWriters = 10

func newTags(c *cloud.Client) *Tags {
	t := &Tags{Collection: collection(c, "tag", "tags/", "", func(t *Tag) string { return t.UUID })}
	t.ListCache = cloud.NewListCache(t.List, t.ID)
	t.changes = cloud.NewBatches(func(ctx context.Context, _ string, b *cloud.Batch[[]TagChange]) []cloud.Outcome[[]Tag] {
		// The list after the last batch is not good enough: another cluster may have changed
		// a tag since, and a write would undo that. Others go on with what they know.
		began := time.Now()
		now, err := t.Since(ctx, began, time.Time{})
		b.Gather(ctx, time.Since(began))
		return t.changeAll(ctx, b.Take(), now, err)
	})
	return t
}

// List reads all tags with their resources.
func (t *Tags) List(ctx context.Context) ([]Tag, error) {
	var all []Tag
	for range 2 {
		detailed := t.detailed.Load()
		path := t.path
		if detailed {
			path += "detail/"
		}
		var err error
		all, err = t.list(ctx, path, nil)
		if err != nil || !slices.ContainsFunc(all, func(tag Tag) bool { return !tag.whole }) {
			return all, err
		}
		if slices.ContainsFunc(all, func(tag Tag) bool { return tag.whole }) {
			break // those of others are not in the other list either
		}
		t.detailed.Store(!detailed)
	}
	for i := range all {
		if !all[i].whole {
			if err := t.askIfEmpty(ctx, &all[i]); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// askIfEmpty finds out whether a tag without resources in the list has none. If it were
// taken for empty and is not, it would lose what others have put on it.
func (t *Tags) askIfEmpty(ctx context.Context, tag *Tag) error {
	path, err := t.one(tag.UUID)
	if err != nil {
		return err
	}
	ips, err := t.page(ctx, path+"ips/", nil, 0)
	if err != nil {
		return err
	}
	if ips.Objects == nil || len(*ips.Objects) > 0 {
		return errors.New("list all tags: they have no resources in the answer")
	}
	tag.whole = true
	return nil
}

// Change makes changes and returns all tags as they were read afterwards. What is
// so already is not written. A resource is added to the tag of the name with the
// lowest UUID, which is made if there is none, and removed from all of the name.
//
// What two tags of a name have is left to that one, and a second one without anything
// is deleted.
//
// Changes that wait are made together, by one list before them, which those who come
// meanwhile share, one write for each tag, and one list after them. What somebody else
// has undone in between is done again; if that happens time and again, the error
// IsIgnored. A lost answer is no error if the change turns out to have been made.
func (t *Tags) Change(ctx context.Context, changes ...TagChange) ([]Tag, error) {
	return t.changes.Do(ctx, "", changes)
}

// changeAll makes the changes of several callers. If the cloud does not like a
// change, those of the first and of the second half are made by themselves: in the
// end only the wrong one fails.
func (t *Tags) changeAll(ctx context.Context, callers [][]TagChange, now []Tag, err error) []cloud.Outcome[[]Tag] {
	alone := len(callers) == 1
	tags, failures, err := t.makeAll(ctx, slices.Concat(callers...), now, err, alone)
	out := make([]cloud.Outcome[[]Tag], len(callers))
	refused := false
	for i, changes := range callers {
		out[i] = cloud.Outcome[[]Tag]{Value: tags, Err: err}
		var ignored error
		for _, c := range changes {
			switch failure := failures[c.Name]; {
			case err != nil || c.made(tags):
			case failure == nil: // perhaps only because another has failed
				ignored = errors.Join(ignored, &IgnoredError{t.kind, fmt.Sprintf("%q", c.Name)})
			default:
				out[i].Err = errors.Join(out[i].Err, failure)
				refused = refused || cloud.IsInvalid(failure)
			}
		}
		if out[i].Err == nil {
			out[i].Err = ignored
		}
	}
	if !refused || alone {
		return out
	}
	half := len(callers) / 2
	again := func(callers [][]TagChange) []cloud.Outcome[[]Tag] {
		now, err := t.Now(ctx)
		return t.changeAll(ctx, callers, now, err)
	}
	return slices.Concat(again(callers[:half]), again(callers[half:]))
}

// makeAll makes changes of the tags that there are now, and returns all tags as they are
// then, and what has failed by the name of the tag.
func (t *Tags) makeAll(ctx context.Context, changes []TagChange, now []Tag, unread error, alone bool) (tags []Tag, failures map[string]error, err error) {
	tags, failures, err = now, map[string]error{}, unread
	for round := 0; err == nil && round < maxRounds; round++ {
		written := false
		for _, stage := range stages(changes) {
			writes := slices.DeleteFunc(plan(tags, stage), func(w tagWrite) bool { return failures[w.tag.Name] != nil })
			if len(writes) > 0 {
				t.write(ctx, writes, failures, alone)
				written, tags = true, after(tags, writes)
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
	return tags, failures, err
}

// write does all writes at the same time, and notes what has failed. What may have
// been done is seen in the next list.
func (t *Tags) write(ctx context.Context, writes []tagWrite, failures map[string]error, alone bool) {
	var mu sync.Mutex
	note := func(name string, err error) {
		if err == nil || cloud.IsNotFound(err) {
			return // gone since the list: planned again
		}
		mu.Lock()
		defer mu.Unlock()
		failures[name] = err
	}
	var all sync.WaitGroup
	var fresh []Tag
	free := make(chan struct{}, tagWriters)
	for _, w := range writes {
		if w.tag.UUID == "" {
			fresh = append(fresh, w.tag)
			continue
		}
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			note(w.tag.Name, t.writeOne(ctx, w))
		})
	}
	if len(fresh) > 0 {
		all.Go(func() {
			err := t.create(ctx, fresh, alone)
			for _, tag := range fresh {
				note(tag.Name, err)
			}
		})
	}
	all.Wait()
}

// create makes tags, all by one call. Some may be there although the cloud did not
// like all of them, so that nothing is sent again without a look unless they are of
// one caller.
func (t *Tags) create(ctx context.Context, tags []Tag, alone bool) error {
	send := func(asTexts bool) error {
		objects := make([]any, len(tags))
		for i := range tags {
			objects[i] = tags[i].definition(asTexts)
		}
		return t.transport.Do(ctx, cloud.Call{Method: http.MethodPost, Kind: t.kind, Path: t.path, In: map[string]any{"objects": objects}})
	}
	if !alone {
		return send(t.asTexts.Load())
	}
	return t.eitherForm(send)
}

// writeOne replaces or deletes a tag. What comes back is not looked at.
func (t *Tags) writeOne(ctx context.Context, w tagWrite) error {
	path, err := t.one(w.tag.UUID)
	if err != nil {
		return err
	}
	if w.remove {
		return t.transport.Do(ctx, cloud.Call{Method: http.MethodDelete, Kind: t.kind, Path: path})
	}
	return t.eitherForm(func(asTexts bool) error {
		return t.transport.Do(ctx, cloud.Call{Method: http.MethodPut, Kind: t.kind, Path: path, In: w.tag.definition(asTexts)})
	})
}

// eitherForm sends resources in the form that was accepted last and, if the cloud
// finds the request invalid, once more in the other one.
func (t *Tags) eitherForm(send func(asTexts bool) error) error {
	asTexts := t.asTexts.Load()
	err := send(asTexts)
	if !cloud.IsInvalid(err) {
		return err
	}
	if other := send(!asTexts); other != nil {
		return err
	}
	t.asTexts.Store(!asTexts)
	return nil
}
