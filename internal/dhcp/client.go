package dhcp

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"time"

	"fairlead.io/internal/lb"
)

// ErrNoServer says that no DHCP server has answered for some time.
var ErrNoServer = errors.New("no DHCP server answers")

// ErrRefused says that a server took the address back, or has none.
var ErrRefused = errors.New("the DHCP server refuses")

const (
	// A message that is not answered is sent again after firstWait, then after
	// twice as long each time, up to mostWait.
	firstWait = time.Second
	mostWait  = time.Minute
	// patience is after how long without an answer that is told, and how long an
	// address that was had before is asked for until any is.
	patience = 10 * time.Second
	// refusedWait is between two attempts where servers refuse.
	refusedWait = 10 * time.Second
	// renewPause is the time between two attempts to renew a long lease, and
	// rebindPause that where its server has been silent for most of it.
	renewPause  = time.Minute
	rebindPause = 15 * time.Second
)

// Config of a Client.
type Config struct {
	Family   lb.Family
	Identity Identity
	// Transport on the interface to the LAN.
	Transport Transport
	// Had and HadUntil are the address that another client of this identity has
	// leased, if valid, and until when; it is used at once, and confirmed then.
	Had      netip.Addr
	HadUntil time.Time
	// Changed is called whenever there is another lease, or none, and when err is
	// another: why there is none, or why it could not be renewed yet.
	Changed func(l *Lease, err error)
}

// Transport carries messages to and from DHCP servers.
type Transport interface {
	// Listen returns what is heard in answer to a transaction until end is called.
	Listen(f lb.Family, transaction uint32) (heard <-chan Heard, end func())
	// Send sends a message to all servers of the LAN or, if to is one, to that from
	// the address that is leased.
	Send(f lb.Family, message []byte, to *Unicast) error
}

// Unicast is how one server is reached.
type Unicast struct {
	From, To netip.Addr
	MAC      []byte
}

// Heard is a message, and the hop that it came from.
type Heard struct {
	Message []byte
	MAC     []byte
}

// Client holds one lease.
type Client struct {
	config Config
	speak  speaker
	lease  *Lease
	err    error
}

// New returns a client that does nothing before Run.
func New(c Config) *Client {
	if c.Had.IsValid() {
		c.Identity.Requested = c.Had
	}
	return &Client{config: c, speak: speakers[c.Family](c.Identity)}
}

// Run gets a lease and holds it until ctx ends. The lease then lasts on, for
// another client of the identity, unless Release is called.
func (c *Client) Run(ctx context.Context) {
	if had := c.config.Had; had.IsValid() {
		if l := remembered(had, c.config.HadUntil, time.Now()); !l.Ended(time.Now()) {
			c.set(l, nil)
		}
	}
	for ctx.Err() == nil {
		if c.lease == nil {
			c.acquire(ctx)
		} else {
			c.hold(ctx)
		}
	}
}

// Release gives the lease back, after Run has ended.
func (c *Client) Release() error {
	if c.lease == nil {
		return nil
	}
	message, to := c.speak.release(rand.Uint32(), c.lease)
	c.lease = nil
	if message == nil { // from a server that is not known: it ends by itself
		return nil
	}
	return c.config.Transport.Send(c.config.Family, message, to)
}

func (c *Client) set(l *Lease, err error) {
	same := l == nil && c.lease == nil || l != nil && c.lease != nil && l.Addr == c.lease.Addr && l.Until.Equal(c.lease.Until) && l.Server == c.lease.Server
	if same && errors.Is(err, c.err) && (err == nil) == (c.err == nil) {
		c.lease = l
		return
	}
	c.lease, c.err = l, err
	c.config.Changed(l, err)
}

// acquire asks for any address until it has one, or for some time.
func (c *Client) acquire(ctx context.Context) {
	offer, ok := c.ask(ctx, discover, nil, time.Now().Add(patience))
	switch {
	case ctx.Err() != nil:
		return
	case !ok:
		c.set(nil, ErrNoServer)
		return
	case offer.kind == nak:
		c.refused(ctx)
		return
	case offer.kind == ack: // at once
		c.set(leaseFrom(offer, time.Now()), nil)
		return
	}
	l := leaseFrom(offer, time.Now())
	a, ok := c.ask(ctx, request, l, time.Now().Add(patience))
	switch {
	case ctx.Err() != nil || !ok:
	case a.kind == ack:
		c.set(leaseFrom(a, time.Now()), nil)
	case a.kind == nak:
		c.refused(ctx)
	}
}

func (c *Client) refused(ctx context.Context) {
	c.set(nil, ErrRefused)
	select {
	case <-ctx.Done():
	case <-time.After(refusedWait):
	}
}

// hold waits until the lease must be renewed, and renews it: first with the
// server that gave it, then with any. It ends with another lease, or none.
func (c *Client) hold(ctx context.Context) {
	l := c.lease
	if l.renew.IsZero() {
		<-ctx.Done()
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(time.Until(l.renew)):
	}
	if c.extend(ctx, renew, l, l.rebind) || c.extend(ctx, rebind, l, l.Until) || ctx.Err() != nil {
		return
	}
	c.set(nil, ErrNoServer)
}

// extend asks for more time; false means that nobody answered until then.
func (c *Client) extend(ctx context.Context, p phase, l *Lease, until time.Time) bool {
	for until.IsZero() || time.Now().Before(until) {
		wait := renewPause
		if p == rebind {
			wait = rebindPause
		}
		if !until.IsZero() {
			wait = min(max(time.Until(until)/2, firstWait), wait)
		}
		began := time.Now()
		a, ok := c.ask(ctx, p, l, began.Add(min(patience, wait)))
		switch {
		case ctx.Err() != nil:
			return false
		case ok && a.kind == ack && a.addr == l.Addr:
			c.set(leaseFrom(a, time.Now()), nil)
			return true
		case ok && a.kind == ack: // another address: that one was not asked for
			c.set(nil, ErrRefused)
			return true
		case ok && a.kind == nak:
			c.set(nil, ErrRefused)
			return true
		}
		if p == rebind {
			c.set(l, ErrNoServer)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Until(began.Add(wait))):
		}
	}
	return false
}

// ask sends the message of a phase until something fitting is heard, or until
// then.
func (c *Client) ask(ctx context.Context, p phase, l *Lease, until time.Time) (answer, bool) {
	transaction := rand.Uint32() & c.speak.transactions()
	heard, end := c.config.Transport.Listen(c.config.Family, transaction)
	defer end()
	last := time.NewTimer(time.Until(until))
	defer last.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	began, wait := time.Now(), firstWait
	for {
		select {
		case <-ctx.Done():
			return answer{}, false
		case <-last.C:
			return answer{}, false
		case <-again.C:
			message, to := c.speak.compose(p, transaction, l, time.Since(began))
			// An interface that is down is like a server that is.
			_ = c.config.Transport.Send(c.config.Family, message, to)
			again.Reset(wait - wait/10 + rand.N(wait/5))
			wait = min(2*wait, mostWait)
		case h := <-heard:
			if a, ok := c.speak.parse(p, transaction, h); ok {
				return a, true
			}
		}
	}
}
