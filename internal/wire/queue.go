package wire

import (
	"net/netip"
	"time"
)

// announced is an owned address and the next frame about it.
type announced struct {
	addr     netip.Addr
	form     Form
	round    int
	first    bool // the first frame of a take-over or defence
	due      time.Time
	defended time.Time

	serial uint64
	index  int // in the queue; -1 if not in it
}

// queue is a heap of what is to be sent (container/heap): first frames before
// others, then by time, then in the order of arrival.
type queue []*announced

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	x, y := q[i], q[j]
	switch {
	case x.first != y.first:
		return x.first
	case !x.due.Equal(y.due):
		return x.due.Before(y.due)
	}
	return x.serial < y.serial
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	e := x.(*announced)
	e.index = len(*q)
	*q = append(*q, e)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	e.index = -1
	return e
}
