package ipam

import (
	"math"

	"github.com/google/btree"
)

// interval is all keys from from to to, both included.
type interval struct{ from, to key }

// intervals is a set of keys as disjoint intervals that do not touch. Every
// operation is O(log n) in the number of intervals, however long they are.
//
// The tree is ordered by the upper end: taking the lowest key of an interval,
// the most frequent operation by far, then replaces an item in its place.
type intervals struct{ tree *btree.BTreeG[interval] }

func newIntervals() intervals {
	return intervals{btree.NewG(32, func(a, b interval) bool { return a.to.less(b.to) })}
}

// around returns the first interval that ends at k or later.
func (s intervals) around(k key) (found interval, ok bool) {
	s.tree.AscendGreaterOrEqual(interval{to: k}, func(i interval) bool {
		found, ok = i, true
		return false
	})
	return found, ok
}

func (s intervals) contains(k key) bool {
	i, ok := s.around(k)
	return ok && !k.less(i.from)
}

func (s intervals) first() (key, bool) {
	i, ok := s.tree.Min()
	return i.from, ok
}

func (s intervals) last() (key, bool) {
	i, ok := s.tree.Max()
	return i.to, ok
}

func (s intervals) empty() bool { return s.tree.Len() == 0 }

// append adds i, which is above everything that is in the set.
func (s intervals) append(i interval) {
	if last, ok := s.tree.Max(); ok {
		if after, _ := last.to.next(); after == i.from {
			s.tree.Delete(last)
			i.from = last.from
		}
	}
	s.tree.ReplaceOrInsert(i)
}

// remove takes k out of the set; it says whether k was in it.
func (s intervals) remove(k key) bool {
	i, ok := s.around(k)
	if !ok || k.less(i.from) {
		return false
	}
	below, above := interval{i.from, k}, interval{k, i.to}
	if k == i.to {
		s.tree.Delete(i)
	} else {
		above.from, _ = k.next()
		s.tree.ReplaceOrInsert(above)
	}
	if k != i.from {
		below.to, _ = k.prev()
		s.tree.ReplaceOrInsert(below)
	}
	return true
}

// cut takes all keys of c out of the set, and returns how many were in it, saturated.
func (s intervals) cut(c interval) (n int) {
	for {
		i, ok := s.around(c.from)
		if !ok || c.to.less(i.from) {
			return n
		}
		s.tree.Delete(i)
		if i.from.less(c.from) {
			below := i
			below.to, _ = c.from.prev()
			s.tree.ReplaceOrInsert(below)
			i.from = c.from
		}
		if c.to.less(i.to) {
			above := i
			above.from, _ = c.to.next()
			s.tree.ReplaceOrInsert(above)
			i.to = c.to
		}
		if all := i.from.saturated(i.to); n > math.MaxInt-int(all) {
			n = math.MaxInt
		} else {
			n += int(all)
		}
	}
}

// add puts k into the set and joins the intervals it touches; it says whether k
// was not in it.
func (s intervals) add(k key) bool {
	i := interval{k, k}
	if right, ok := s.around(k); ok {
		if !k.less(right.from) {
			return false
		}
		if n, ok := k.next(); ok && n == right.from {
			i.to = right.to
		}
	}
	if p, ok := k.prev(); ok {
		if left, ok := s.tree.Get(interval{to: p}); ok {
			i.from = left.from
			s.tree.Delete(left)
		}
	}
	s.tree.ReplaceOrInsert(i)
	return true
}
