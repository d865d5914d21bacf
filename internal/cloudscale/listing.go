package cloudscale

import (
	"context"
	"time"
)

const (
	// listingAge is how old a list of servers may be for those who only look.
	listingAge = 10 * time.Second
	// recentAge is for those who miss a server in it: it may have been made since.
	recentAge = time.Second
)

// Listing is the list of all servers of the project, read once for everybody who
// asks within a few seconds.
type Listing struct {
	list func(context.Context) ([]Server, error)

	turn chan struct{} // has a token while somebody reads
	last result        // belongs to whoever has the turn
}

// result of reading the list.
type result struct {
	began, ended time.Time
	servers      []Server
	err          error
	abandoned    bool // by the one who read it
}

// NewListing makes a listing of what list returns.
func NewListing(list func(context.Context) ([]Server, error)) *Listing {
	return &Listing{list: list, turn: make(chan struct{}, 1)}
}

// Servers returns all servers as they were at most ten seconds ago. They belong
// to everybody: they must not be changed.
func (l *Listing) Servers(ctx context.Context) ([]Server, error) { return l.within(ctx, listingAge) }

// Recent returns all servers as they were at most a second ago.
func (l *Listing) Recent(ctx context.Context) ([]Server, error) { return l.within(ctx, recentAge) }

func (l *Listing) within(ctx context.Context, age time.Duration) ([]Server, error) {
	asked := time.Now()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.last.serves(asked, age) {
		return l.last.servers, l.last.err
	}
	r := result{began: time.Now()}
	r.servers, r.err = l.list(ctx)
	r.ended, r.abandoned = time.Now(), ctx.Err() != nil
	l.last = r
	return r.servers, r.err
}

// serves says whether r is the answer for somebody who asked then. A failure is
// shared by those who waited for it, unless it is only that who read it gave up.
func (r result) serves(asked time.Time, age time.Duration) bool {
	if r.err != nil {
		return r.ended.After(asked) && !r.abandoned
	}
	return !r.began.IsZero() && asked.Sub(r.began) <= age
}
