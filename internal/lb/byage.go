package lb

import "slices"

// ByAge has values under each key, the oldest first.
type ByAge[K comparable, T interface {
	comparable
	Older(T) bool
}] map[K][]T

// Add adds x under key.
func (m ByAge[K, T]) Add(key K, x T) {
	at, _ := slices.BinarySearchFunc(m[key], x, func(x, y T) int {
		if x.Older(y) {
			return -1
		}
		return 1
	})
	m[key] = slices.Insert(m[key], at, x)
}

// Remove removes x from under key, and the key with its last.
func (m ByAge[K, T]) Remove(key K, x T) {
	m[key] = slices.DeleteFunc(m[key], func(y T) bool { return x == y })
	if len(m[key]) == 0 {
		delete(m, key)
	}
}
