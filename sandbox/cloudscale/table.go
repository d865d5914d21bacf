package cloudscale

import (
	"iter"
	"slices"
)

// table keeps objects by their id, in the order in which they were made, and
// in groups if there is a way to tell them.
type table[T any] struct {
	byID   map[string]*T
	order  []string
	group  func(*T) string
	groups map[string][]*T
}

func (t *table[T]) add(id string, object *T) {
	if t.byID == nil {
		t.byID, t.groups = make(map[string]*T), make(map[string][]*T)
	}
	t.byID[id] = object
	t.order = append(t.order, id)
	if t.group != nil {
		t.groups[t.group(object)] = append(t.groups[t.group(object)], object)
	}
}

// get returns nil if there is no such object.
func (t *table[T]) get(id string) *T { return t.byID[id] }

func (t *table[T]) remove(id string) {
	if t.byID[id] == nil {
		return
	}
	if t.group != nil {
		key := t.group(t.byID[id])
		t.groups[key] = slices.DeleteFunc(slices.Clone(t.groups[key]), func(other *T) bool { return other == t.byID[id] })
		if len(t.groups[key]) == 0 {
			delete(t.groups, key)
		}
	}
	delete(t.byID, id)
	t.order = slices.DeleteFunc(t.order, func(other string) bool { return other == id })
}

// regroup is needed after objects were changed.
func (t *table[T]) regroup() {
	if t.group == nil {
		return
	}
	clear(t.groups)
	for object := range t.all() {
		t.groups[t.group(object)] = append(t.groups[t.group(object)], object)
	}
}

// in returns the objects of a group. The list stays as it is when they are
// removed.
func (t *table[T]) in(group string) []*T { return t.groups[group] }

func (t *table[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, id := range t.order {
			if !yield(t.byID[id]) {
				return
			}
		}
	}
}

// where returns the objects with a property: a list of its own, so that they
// may be removed while it is gone through.
func (t *table[T]) where(has func(*T) bool) []*T {
	var found []*T
	for object := range t.all() {
		if has(object) {
			found = append(found, object)
		}
	}
	return found
}
