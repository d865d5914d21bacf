package dhcp

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"fairlead.io/internal/lb"
)

// ErrNoServer says that no DHCP server has answered for some time.
var ErrNoServer = errors.New("no DHCP server answers")

// ErrRefused says that a server took the address back, or has none.
var ErrRefused = errors.New("the DHCP server refuses")

// Useless says why what a server gives cannot be used.
type Useless struct{ Why string }

func (u Useless) Error() string { return "what the DHCP server gives cannot be used: " + u.Why }

const (
	// A message that is not answered is sent again after firstWait, then after
	// twice as long each time, up to maxWait.
	firstWait = time.Second
	maxWait   = time.Minute
	// patience is after how long without an answer that is reported, and how long an
	// address that was had before is asked for until any is.
	patience = 10 * time.Second
	// maxMisses is how often that time is doubled where nobody answers at all. The
	// messages are then a few in a minute, and a server is found within one.
	maxMisses = 3
	// refusedWait is between two attempts where servers refuse, or give what cannot
	// be used; twice as long each time, up to maxRefusedWait.
	refusedWait    = 10 * time.Second
	maxRefusedWait = 5 * time.Minute
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
	// HadServer gave it, if that is known. What others say about it counts less.
	HadServer string
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
	// refusals and misses, servers that refuse or do not answer, in a row; a lease
	// that was never renewed is no end to refusals.
	refusals, misses int

	mu       sync.Mutex
	unwanted netip.Addr // see Decline
	why      string
	letGo    context.CancelFunc // ends holding
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
		if l := remembered(had, c.config.HadUntil, c.config.HadServer, time.Now()); !l.Ended(time.Now()) {
			c.set(l, nil)
		}
	}
	for ctx.Err() == nil {
		if c.lease == nil {
			c.acquire(ctx)
			continue
		}
		held, letGo := context.WithCancel(ctx)
		c.mu.Lock()
		unwanted, why := c.unwanted == c.lease.Addr, c.why
		c.unwanted, c.letGo = netip.Addr{}, letGo
		c.mu.Unlock()
		if unwanted {
			c.decline(ctx, why)
		} else {
			c.hold(held)
		}
		letGo()
	}
}

// Decline gives addr back, which the client has leased and which cannot be used:
// its server then gives it to nobody for some time. Another is asked for. It may
// be called at any time; if that is no longer the client's address, nothing happens.
func (c *Client) Decline(addr netip.Addr, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unwanted, c.why = addr, why
	if c.letGo != nil {
		c.letGo()
	}
}

func (c *Client) decline(ctx context.Context, why string) {
	if message := c.speak.decline(c.transaction(), c.lease); message != nil {
		_ = c.config.Transport.Send(c.config.Family, message, nil)
	}
	if id := &c.config.Identity; id.Requested == c.lease.Addr {
		id.Requested = netip.Addr{}
		c.speak = speakers[c.config.Family](*id)
	}
	c.refused(ctx, Useless{why})
}

// Release gives the lease back, after Run has ended.
func (c *Client) Release() error {
	if c.lease == nil {
		return nil
	}
	message, to := c.speak.release(c.transaction(), c.lease)
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
	transaction := c.transaction()
	a, err := c.ask(ctx, discover, transaction, nil, time.Now().Add(patience<<c.misses))
	if err == nil {
		if !c.speak.goesOn() {
			transaction = c.transaction()
		}
		a, err = c.ask(ctx, request, transaction, leaseFrom(a, time.Now()), time.Now().Add(patience))
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.misses = min(c.misses+1, maxMisses)
		c.set(nil, err)
	case a.kind == nak:
		c.refused(ctx, ErrRefused)
	default:
		c.misses = 0
		c.set(leaseFrom(a, time.Now()), nil)
	}
}

// refused notes that there is nothing to be had, and waits.
func (c *Client) refused(ctx context.Context, err error) {
	c.set(nil, err)
	wait := min(refusedWait<<min(c.refusals, 10), maxRefusedWait)
	c.refusals++
	select {
	case <-ctx.Done():
	case <-time.After(wait):
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
		a, err := c.ask(ctx, p, c.transaction(), l, began.Add(min(patience, wait)))
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil && a.kind == ack && a.addr == l.Addr:
			c.refusals = 0
			c.set(leaseFrom(a, time.Now()), nil)
			return true
		case err == nil && c.refusals == 0: // taken back, or another address, which was not asked for
			c.refusals++
			c.set(nil, ErrRefused)
			return true
		case err == nil: // as soon as it was given
			c.refused(ctx, ErrRefused)
			return true
		}
		if p == rebind {
			c.set(l, err)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Until(began.Add(wait))):
		}
	}
	return false
}

// transaction is a number for a new one.
func (c *Client) transaction() uint32 { return rand.Uint32() & c.speak.transactions() }

// ask sends the message of a phase until something fitting is heard, or until
// then. The error says what is wrong if there is no such answer.
func (c *Client) ask(ctx context.Context, p phase, transaction uint32, l *Lease, until time.Time) (answer, error) {
	heard, end := c.config.Transport.Listen(c.config.Family, transaction)
	defer end()
	last := time.NewTimer(time.Until(until))
	defer last.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	began, wait := time.Now(), firstWait
	var err error = ErrNoServer
	var stranger *answer // who says no, where another has to know
	for {
		select {
		case <-ctx.Done():
			return answer{}, ctx.Err()
		case <-last.C:
			if stranger != nil {
				return *stranger, nil
			}
			return answer{}, err
		case <-again.C:
			message, to := c.speak.compose(p, transaction, l, time.Since(began))
			// An interface that is down is like a server that is.
			_ = c.config.Transport.Send(c.config.Family, message, to)
			again.Reset(wait - wait/10 + rand.N(wait/5))
			wait = min(2*wait, maxWait)
		case h := <-heard:
			a, ok := c.speak.parse(p, transaction, h)
			switch {
			case !ok:
			case a.kind == useless && a.why == "":
				err = ErrRefused
			case a.kind == useless:
				err = Useless{a.why}
			case a.kind == nak && l != nil && l.given != "" && a.name != l.given:
				stranger = &a
			default:
				return a, nil
			}
		}
	}
}
