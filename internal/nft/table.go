package nft

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go4.org/netipx"
)

// ErrTampered says that our tables are not as we left them: somebody else has
// changed or flushed them. Rebuild helps.
var ErrTampered = errors.New("another program changed Fairlead's nftables tables")

// Table is our two tables in the kernel. There must be only one Table in a
// network namespace at a time: each takes the other's writes for tampering.
// All methods may be called at the same time.
type Table struct {
	log *slog.Logger

	// state is the socket for everything but fences. Its lock also guards have
	// and stale.
	state *conn
	have  map[netip.Addr]VIP // what is in the kernel
	// routed is what routers lead here, as the kernel has it.
	routed []netipx.IPRange
	stale  bool // have and routed are not to be relied on
	// earlier is what was counted before the tables were last rebuilt.
	earlier map[Flow]Count

	// fence is the socket for fences: a large Apply must not make them late. Its
	// lock also guards until. To hold both locks, take that of state first.
	fence *conn
	until map[string]time.Time // interface → when the kernel ends its fence, at the latest known

	leftover State
	fences   []string

	tampered chan struct{}
	watcher  *watcher
	close    sync.Once
}

// Open makes our tables, or adopts those an earlier agent has left: their
// elements are kept, and rules are replaced in one transaction, so that there is
// no moment in which the kernel answers for too much or too little.
func Open(log *slog.Logger) (*Table, error) {
	return OpenIn(log, 0)
}

// OpenIn is Open in the network namespace of a file descriptor, which must stay
// open; 0 is the calling thread's. Entering a namespace takes CAP_SYS_ADMIN.
func OpenIn(log *slog.Logger, netns int) (*Table, error) {
	t := &Table{log: log, until: map[string]time.Time{}, tampered: make(chan struct{}, 1)}
	var err error
	if t.state, err = dial(netns); err != nil {
		return nil, err
	}
	if t.fence, err = dial(netns); err != nil {
		return nil, errors.Join(err, t.state.CloseLasting())
	}
	if t.watcher, err = watch(t, netns); err != nil {
		return nil, errors.Join(err, t.state.CloseLasting(), t.fence.CloseLasting())
	}
	if err := t.adopt(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Table) adopt() error {
	t.state.Lock()
	defer t.state.Unlock()
	t.fence.Lock()
	defer t.fence.Unlock()
	found, err := t.state.read()
	if err != nil {
		return err
	}
	t.leftover, t.fences = found.state, slices.Sorted(maps.Keys(found.until))
	if found.ours {
		err := t.state.define()
		if err != nil {
			return t.state.abandon(err)
		}
		if err = t.state.commit(); err == nil {
			t.have, t.until, t.routed = maps.Clone(found.state.VIPs), found.until, found.state.Routed
			return nil
		}
		t.log.Info("replacing nftables tables of an earlier version", "error", err)
	}
	// Sets or chains are of another version's kind. Elements are kept even so.
	t.until = found.until
	return t.rebuild(found.state, t.fences)
}

// Leftover returns what an earlier agent had left when the tables were opened,
// and the interfaces whose fences were still alive then.
func (t *Table) Leftover() (State, []string) {
	return t.leftover, t.fences
}

// Apply brings the tables to s in one transaction. Only differences to what is
// in the kernel are sent. Neither s nor what is in it is kept.
func (t *Table) Apply(s State) error {
	return t.apply(func() (change, error) { return diff(t.have, s) })
}

// Update is Apply for callers that know what has changed: it sets the addresses in
// changes to their values, removes those with nil, and leaves all others as they
// are. Its cost does not depend on how many others there are.
func (t *Table) Update(changes map[netip.Addr]*VIP) error {
	return t.apply(func() (change, error) {
		have, want := map[netip.Addr]VIP{}, State{VIPs: map[netip.Addr]VIP{}}
		for a, v := range changes {
			if old, known := t.have[a]; known {
				have[a] = old
			}
			if v != nil {
				want.VIPs[a] = *v
			}
		}
		return diff(have, want)
	})
}

func (t *Table) apply(plan func() (change, error)) error {
	t.state.Lock()
	defer t.state.Unlock()
	if t.stale {
		if err := t.reread(); err != nil {
			return err
		}
	}
	c, err := plan()
	if err != nil || len(c.add) == 0 && len(c.remove) == 0 {
		return err
	}
	if err := errors.Join(t.state.removeElements(c.remove), t.state.addElements(c.add)); err != nil {
		return t.state.abandon(err)
	}
	if err := t.state.commit(); err != nil {
		t.stale = true
		return fmt.Errorf("write %d nftables elements: %w", len(c.add)+len(c.remove), t.missing(err))
	}
	for a, v := range c.vips {
		if v == nil {
			delete(t.have, a)
		} else {
			t.have[a] = *v
		}
	}
	return nil
}

func (t *Table) reread() error {
	found, err := t.state.read()
	if err != nil {
		return err
	}
	if !found.complete {
		return ErrTampered
	}
	t.have, t.routed, t.stale = found.state.VIPs, found.state.Routed, false
	return nil
}

// Rebuild replaces everything in one transaction, whatever is there. Fences of the
// named interfaces stay if they have not expired by our clock; for the others, Renew
// reports that they are lost, as usual.
func (t *Table) Rebuild(s State, fences []string) error {
	t.state.Lock()
	defer t.state.Unlock()
	t.fence.Lock()
	defer t.fence.Unlock()
	return t.rebuild(s, fences)
}

func (t *Table) rebuild(s State, fences []string) error {
	c, err := diff(nil, s)
	if err != nil {
		return err
	}
	c.add = append(c.add, intervalElements(s.Routed)...)
	until := map[string]time.Time{}
	now := time.Now()
	for _, name := range fences {
		if now.Before(t.until[name]) {
			until[name] = now.Add(FenceTime)
			c.add = append(c.add, fenceOf(name)...)
		}
	}
	if earlier, err := t.counts(); err == nil { // otherwise somebody has removed them
		t.earlier = earlier
	}
	t.state.undefine()
	if err := errors.Join(t.state.define(), t.state.addElements(c.add)); err != nil {
		return t.state.abandon(err)
	}
	if err := t.state.commit(); err != nil {
		t.stale = true
		return fmt.Errorf("rebuild nftables tables: %w", err)
	}
	t.have, t.stale, t.until, t.routed = map[netip.Addr]VIP{}, false, until, slices.Clone(s.Routed)
	for a, v := range c.vips {
		t.have[a] = *v
	}
	return nil
}

// Tampered is sent to when somebody else has changed our tables. The caller is to
// call Rebuild.
func (t *Table) Tampered() <-chan struct{} { return t.tampered }

// Delete removes both tables, for good: the kernel then answers for all
// addresses it has, so they must be gone first.
func (t *Table) Delete() error {
	t.state.Lock()
	defer t.state.Unlock()
	t.fence.Lock()
	defer t.fence.Unlock()
	t.state.undefine()
	if err := t.state.commit(); err != nil {
		return fmt.Errorf("delete nftables tables: %w", err)
	}
	t.have, t.routed, t.stale = nil, nil, true
	clear(t.until)
	return nil
}

// Close ends the use of the tables and leaves them as they are. Fences run out
// unless somebody opens the tables in time.
func (t *Table) Close() error {
	var err error
	t.close.Do(func() {
		err = errors.Join(t.watcher.stop(), t.state.CloseLasting(), t.fence.CloseLasting())
	})
	return err
}
