package carrying

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"fairlead.io/internal/conntrack"
)

// Kernel is the connection tracking of this node's kernel.
type Kernel struct{}

var _ Connections = Kernel{}

// List is conntrack.List.
func (Kernel) List(of func(netip.Addr) bool, rank func(conntrack.Conn) conntrack.Rank) ([]conntrack.Tracked, error) {
	return conntrack.List(of, rank)
}

// Watch is conntrack.Watch.
func (Kernel) Watch(ctx context.Context, of func(netip.Addr) bool, changes func([]conntrack.Change)) error {
	return conntrack.Watch(ctx, of, changes)
}

const (
	// watchRetry is how long a kernel is left alone that does not tell of connections.
	watchRetry = 5 * time.Second
	// readRetry is the same for one that does not list them.
	readRetry = time.Second
)

// watch is how connections are followed.
type watch struct {
	stop    context.CancelFunc // nil: nobody does
	listens bool               // changes are heard
	reading bool
	retry   time.Time
	reread  time.Time // not to be read before
	many    bool      // there were too many
}

// follow has connections of addresses followed while there are any to follow, and read when that
// is due: after somebody listens to changes, so that none is missed.
func (c *Carrying) follow(ctx context.Context, now time.Time) {
	following := c.lister.Following()
	of := make(map[netip.Addr]bool, len(following))
	for _, addr := range following {
		of[addr] = true
	}
	c.of.Store(&of)
	w := &c.watch
	switch {
	case len(following) == 0 && w.stop != nil:
		w.stop()
		w.stop, w.listens = nil, false
	case len(following) > 0 && w.stop == nil && !now.Before(w.retry):
		c.listen(ctx)
	}
	failed := w.stop == nil && now.Before(w.retry)
	if len(following) == 0 || w.reading || !w.listens && !failed || now.Before(w.reread) || !c.lister.Unread(now) {
		return
	}
	w.reading = true
	c.lister.Begin()
	rank := c.lister.Rank()
	c.beside.Go(func() {
		found, err := c.o.Connections.List(func(a netip.Addr) bool { return of[a] }, rank)
		c.later(ctx, func(at time.Time) {
			w.reading = false
			switch {
			case errors.Is(err, conntrack.ErrTooMany):
				if !w.many {
					c.o.Log.Warn("there are more connections than are listed to other nodes", "error", err)
				}
				w.many = true
			case err != nil:
				c.o.Log.Warn("connections not read", "error", err)
				w.reread = at.Add(readRetry)
				c.lister.Lose()
				return
			default:
				w.many = false
			}
			c.lister.Read(following, found, now)
		})
	})
}

func (c *Carrying) listen(ctx context.Context) {
	listening, stop := context.WithCancel(ctx)
	w := &c.watch
	w.stop, w.listens = stop, false
	c.beside.Go(func() {
		defer stop()
		err := c.o.Connections.Watch(listening, func(a netip.Addr) bool { return (*c.of.Load())[a] }, func(changes []conntrack.Change) {
			c.later(listening, func(time.Time) {
				w.listens = true
				for _, one := range changes {
					if one.Lost {
						c.lister.Lose()
						break
					}
				}
				c.lister.Change(changes)
			})
		})
		if err == nil || listening.Err() != nil {
			return
		}
		c.later(listening, func(now time.Time) {
			c.o.Log.Warn("changes of connections are not heard; reading them from time to time", "error", err)
			w.stop, w.listens, w.retry = nil, false, now.Add(watchRetry)
		})
	})
}
