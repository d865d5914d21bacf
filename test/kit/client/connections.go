// Package client sees a sandbox as hosts on its LAN do while something happens
// to the nodes: whether new connections are made, and who answers to ARP.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"fairlead.io/sandbox"
)

const (
	// Every is how often a connection is tried, and an address asked for.
	Every = 20 * time.Millisecond
	// patience is how long a connection may take on a busy machine. That a packet was
	// lost does not show in the time, but in what the kernel has repeated: see
	// [Serve] and dial.
	patience = 10 * time.Second
)

// Connections are made by the client host, again and again.
type Connections struct {
	began time.Time
	stop  func()

	mu      sync.Mutex
	records []Record
}

// Record is what became of the connections to an address.
type Record struct {
	To     netip.AddrPort
	Made   []time.Time // when those began that were made, in order
	Failed []Failure
	Gap    time.Duration

	from, to time.Time // when connections were made
}

// Failure is a connection that was not made.
type Failure struct {
	Began, Ended time.Duration // since the first connection
	Err          error
}

// Outage is the longest time between two connections that were made, with one between
// them that failed: without one, this program was merely too busy to begin any.
func (r Record) Outage() (longest time.Duration) {
	for _, f := range r.Failed {
		i, _ := slices.BinarySearchFunc(r.Made, f.Began, func(made time.Time, began time.Duration) int { return cmp.Compare(made.Sub(r.from), began) })
		from, to := r.from, r.to
		if i > 0 {
			from = r.Made[i-1]
		}
		if i < len(r.Made) {
			to = r.Made[i]
		}
		longest = max(longest, to.Sub(from))
	}
	return longest
}

func (f Failure) String() string {
	return fmt.Sprintf("from %v to %v: %v", f.Began.Round(time.Millisecond), f.Ended.Round(time.Millisecond), f.Err)
}

// Reset says whether a connection was reset. That may happen to one that is under way when
// its node fails: it ends at another node, which knows nothing of it.
func Reset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Late says whether a connection was made late. That may happen to one that is being opened
// when its address is handed over: until the next owner knows of it, it drops its packets.
func Late(err error) bool { return errors.Is(err, ErrLate) }

// Unexplained returns the failures that so many moves of the address do not explain. A move
// explains what may happen to connections that are under way at one moment. On a busy machine
// these may be many.
func (r Record) Unexplained(moves int, may func(error) bool) (out []Failure) {
	var hit []Failure
	for _, f := range r.Failed {
		if may(f.Err) {
			hit = append(hit, f)
		} else {
			out = append(out, f)
		}
	}
	slices.SortFunc(hit, func(a, b Failure) int { return cmp.Compare(a.Ended, b.Ended) })
	for len(hit) > 0 && moves > 0 {
		moment := hit[0].Ended
		hit = slices.DeleteFunc(hit, func(f Failure) bool { return f.Began <= moment })
		moves--
	}
	return append(out, hit...)
}

// Connect begins to make new connections to each address.
func Connect(c *sandbox.Cluster, to ...netip.AddrPort) *Connections { return begin(c, Greet, to) }

// Browse begins to fetch the page at each address, with a new connection each time.
func Browse(c *sandbox.Cluster, to ...netip.AddrPort) *Connections {
	return begin(c, func(ctx context.Context, c *sandbox.Cluster, to netip.AddrPort) error {
		_, err := Get(ctx, c, to)
		return err
	}, to)
}

func begin(c *sandbox.Cluster, how method, to []netip.AddrPort) *Connections {
	all := &Connections{began: time.Now(), records: make([]Record, len(to))}
	for i, addr := range to {
		all.records[i].To = addr
	}
	all.stop = repeat(c, how, Every, all.note, to)
	return all
}

// method makes a connection.
type method func(context.Context, *sandbox.Cluster, netip.AddrPort) error

// Try is a connection that was made, or not.
type Try struct {
	To           netip.AddrPort
	Began, Ended time.Time
	Err          error
}

// Repeat makes a new connection to each address, every so often, until stop is called,
// which waits for those that are under way. It tells of each when it has ended, of
// several at the same time.
func Repeat(c *sandbox.Cluster, every time.Duration, tell func(Try), to ...netip.AddrPort) (stop func()) {
	return repeat(c, Greet, every, func(_ int, t Try) { tell(t) }, to)
}

func repeat(c *sandbox.Cluster, how method, every time.Duration, tell func(int, Try), to []netip.AddrPort) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var trying sync.WaitGroup
	for i, addr := range to {
		trying.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for ctx.Err() == nil {
				trying.Go(func() {
					began := time.Now()
					err := how(context.Background(), c, addr)
					tell(i, Try{addr, began, time.Now(), err})
				})
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
	}
	return func() {
		cancel()
		trying.Wait()
	}
}

// Stop waits for those that are under way, and tells of each address. Gap is
// the longest time between the beginnings of two connections that were made.
func (c *Connections) Stop() []Record {
	end := time.Now()
	c.stop()
	for i := range c.records {
		r := &c.records[i]
		slices.SortFunc(r.Made, time.Time.Compare)
		r.from, r.to = c.began, end
		r.Gap = longestGap(c.began, r.Made, end)
	}
	return c.records
}

func (c *Connections) note(i int, t Try) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.records[i]
	if t.Err != nil {
		r.Failed = append(r.Failed, Failure{t.Began.Sub(c.began), t.Ended.Sub(c.began), t.Err})
		return
	}
	r.Made = append(r.Made, t.Began)
}

// Get fetches the page at an address from the client host.
func Get(ctx context.Context, c *sandbox.Cluster, to netip.AddrPort) (page string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dial(ctx, from(c, to), to)
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+to.String(), nil)
	if err != nil {
		return "", err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the server says %s", response.Status)
	}
	return string(body), err
}

// longestGap between two moments at which something happened.
func longestGap(from time.Time, at []time.Time, to time.Time) (gap time.Duration) {
	for _, t := range at {
		gap, from = max(gap, t.Sub(from)), t
	}
	return max(gap, to.Sub(from))
}
