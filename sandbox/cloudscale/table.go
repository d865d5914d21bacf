package cloudscale

import (
	"iter"
	"slices"
)

// table keeps objects by their id, in the order in which they were made.
type table[T any] struct {
	byID  map[string]*T
	order []string
}

func (t *table[T]) add(id string, object *T) {
	if t.byID == nil {
		t.byID = make(map[string]*T)
	}
	t.byID[id] = object
	t.order = append(t.order, id)
}

// get returns nil if there is no such object.
func (t *table[T]) get(id string) *T { return t.byID[id] }

func (t *table[T]) remove(id string) {
	delete(t.byID, id)
	t.order = slices.DeleteFunc(t.order, func(other string) bool { return other == id })
}

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
