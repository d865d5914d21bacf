package simulator

import (
	"iter"
	"slices"
)

// Table keeps objects by their ID, in the order in which they were made, and
// in groups if Group says which. The zero value is an empty table. It has no lock.
type Table[T any] struct {
	// Group is the group that an object is in; nil: there are none.
	Group func(*T) string

	byID   map[string]*T
	order  []string
	groups map[string][]*T
}

// Add adds an object.
func (t *Table[T]) Add(id string, object *T) {
	if t.byID == nil {
		t.byID, t.groups = make(map[string]*T), make(map[string][]*T)
	}
	t.byID[id] = object
	t.order = append(t.order, id)
	if t.Group != nil {
		t.groups[t.Group(object)] = append(t.groups[t.Group(object)], object)
	}
}

// Get returns nil if there is no such object.
func (t *Table[T]) Get(id string) *T { return t.byID[id] }

// Remove removes an object, if it is there.
func (t *Table[T]) Remove(id string) {
	if t.byID[id] == nil {
		return
	}
	if t.Group != nil {
		key := t.Group(t.byID[id])
		t.groups[key] = slices.DeleteFunc(slices.Clone(t.groups[key]), func(other *T) bool { return other == t.byID[id] })
		if len(t.groups[key]) == 0 {
			delete(t.groups, key)
		}
	}
	delete(t.byID, id)
	t.order = slices.DeleteFunc(t.order, func(other string) bool { return other == id })
}

// Regroup is needed after objects were changed.
func (t *Table[T]) Regroup() {
	if t.Group == nil {
		return
	}
	clear(t.groups)
	for object := range t.All() {
		t.groups[t.Group(object)] = append(t.groups[t.Group(object)], object)
	}
}

// In returns the objects of a group. The list stays as it is when they are
// removed.
func (t *Table[T]) In(group string) []*T { return t.groups[group] }

// All goes through the objects in their order.
func (t *Table[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, id := range t.order {
			if !yield(t.byID[id]) {
				return
			}
		}
	}
}

// Where returns the objects with a property: a list of its own, so that they
// may be removed while it is gone through.
func (t *Table[T]) Where(has func(*T) bool) []*T {
	var found []*T
	for object := range t.All() {
		if has(object) {
			found = append(found, object)
		}
	}
	return found
}
