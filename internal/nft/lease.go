package nft

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// tick is by how much the kernel's clock for leases may be behind ours: it
// counts in jiffies, of 10 ms at worst.
const tick = 20 * time.Millisecond

func leaseOf(ifname string) []element {
	var out []element
	for _, s := range alive {
		out = append(out, element{s, pad(ifname)})
	}
	return out
}

// Grant starts a lease on an interface, at the start of the agent or after a
// loss. Only who has made sure that the interface's addresses are its own may
// call it; to go on, there is Renew.
func (t *Table) Grant(ifname string) error {
	if err := checkName(ifname); err != nil {
		return err
	}
	t.lease.Lock()
	defer t.lease.Unlock()
	// Adding an element that is there does not prolong it (before Linux 6.12), and
	// deleting one that is not there fails.
	now := time.Now()
	e := leaseOf(ifname)
	if err := errors.Join(t.lease.addElements(e), t.lease.removeElements(e), t.lease.addElements(e)); err != nil {
		return t.lease.abandon(err)
	}
	if err := t.lease.commit(); err != nil {
		return fmt.Errorf("grant a lease on %s: %w", ifname, t.missing(err))
	}
	t.until[ifname] = now.Add(Lease)
	return nil
}

// Renew prolongs the leases of the named interfaces, each for the same price. An
// interface whose lease has run out is in lost: the kernel refuses to prolong it,
// so that an agent that was away cannot go on as if it had not been. The others
// are renewed nevertheless.
//
// ErrForeign says that somebody has taken away a lease before its time.
func (t *Table) Renew(ifnames []string) (lost []string, err error) {
	if len(ifnames) == 0 {
		return nil, nil
	}
	t.lease.Lock()
	defer t.lease.Unlock()
	if err := t.renew(ifnames...); !errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	// The whole transaction has failed; find out because of whom.
	for _, name := range ifnames {
		failed := t.renew(name)
		switch {
		case failed == nil:
		case !errors.Is(failed, unix.ENOENT):
			err = errors.Join(err, failed)
		case time.Now().Before(t.until[name].Add(-tick)):
			err = errors.Join(err, fmt.Errorf("renew the lease on %s: %w", name, t.missing(failed)))
		default:
			delete(t.until, name)
			lost = append(lost, name)
		}
	}
	return lost, err
}

func (t *Table) renew(ifnames ...string) error {
	now := time.Now()
	var all []element
	for _, name := range ifnames {
		if err := checkName(name); err != nil {
			return err
		}
		all = append(all, leaseOf(name)...)
	}
	if err := errors.Join(t.lease.removeElements(all), t.lease.addElements(all)); err != nil {
		return t.lease.abandon(err)
	}
	if err := t.lease.commit(); err != nil {
		return err
	}
	for _, name := range ifnames {
		t.until[name] = now.Add(Lease)
	}
	return nil
}

// Revoke ends a lease at once; it is no error if there is none.
func (t *Table) Revoke(ifname string) error {
	if err := checkName(ifname); err != nil {
		return err
	}
	t.lease.Lock()
	defer t.lease.Unlock()
	delete(t.until, ifname)
	e := leaseOf(ifname)
	if err := errors.Join(t.lease.addElements(e), t.lease.removeElements(e)); err != nil {
		return t.lease.abandon(err)
	}
	if err := t.lease.commit(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("revoke the lease on %s: %w", ifname, err)
	}
	return nil
}

// missing turns the kernel's "no such set" or "no such element" into ErrForeign.
func (t *Table) missing(err error) error {
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	t.signal()
	return ErrForeign
}
