package nft

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// A fence is what the kernel asks before it answers on an interface: an element
// of a set that expires after FenceTime unless the agent renews it. An agent that
// crashes, hangs or sleeps does not renew it, and the node falls silent.

// tick is by how much the kernel's clock for fences may be behind ours: it
// counts in jiffies, of 10 ms at worst.
const tick = 20 * time.Millisecond

func fenceOf(ifname string) []element {
	var out []element
	for _, s := range alive {
		out = append(out, element{set: s, key: pad(ifname)})
	}
	return out
}

// Grant starts a fence on an interface, at the start of the agent or after a
// loss. The caller must have made sure that the interface's addresses are its
// own. Renew keeps a fence that was granted.
func (t *Table) Grant(ifname string) error {
	if err := checkName(ifname); err != nil {
		return err
	}
	t.fence.Lock()
	defer t.fence.Unlock()
	// Adding an element that is there does not prolong it (before Linux 6.12), and
	// deleting one that is not there fails.
	now := time.Now()
	e := fenceOf(ifname)
	if err := errors.Join(t.fence.addElements(e), t.fence.removeElements(e), t.fence.addElements(e)); err != nil {
		return t.fence.abandon(err)
	}
	if err := t.fence.commit(); err != nil {
		return fmt.Errorf("grant the fence of %s: %w", ifname, t.missing(err))
	}
	t.until[ifname] = now.Add(FenceTime)
	return nil
}

// Renew renews the fences of the named interfaces. An interface whose fence has
// expired is in lost: the kernel refuses to renew it, so an agent that was away
// cannot continue as if it had not been. The other fences are renewed all the same.
//
// ErrTampered says that somebody removed a fence before it expired.
func (t *Table) Renew(ifnames []string) (lost []string, err error) {
	if len(ifnames) == 0 {
		return nil, nil
	}
	t.fence.Lock()
	defer t.fence.Unlock()
	if err := t.renew(ifnames...); !errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	// The whole transaction has failed: find out which one is to blame.
	for _, name := range ifnames {
		failed := t.renew(name)
		switch {
		case failed == nil:
		case !errors.Is(failed, unix.ENOENT):
			err = errors.Join(err, failed)
		case time.Now().Before(t.until[name].Add(-tick)):
			err = errors.Join(err, fmt.Errorf("renew the fence of %s: %w", name, t.missing(failed)))
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
		all = append(all, fenceOf(name)...)
	}
	if err := errors.Join(t.fence.removeElements(all), t.fence.addElements(all)); err != nil {
		return t.fence.abandon(err)
	}
	if err := t.fence.commit(); err != nil {
		return err
	}
	for _, name := range ifnames {
		t.until[name] = now.Add(FenceTime)
	}
	return nil
}

// Revoke removes a fence at once. It succeeds if there is none.
func (t *Table) Revoke(ifname string) error {
	if err := checkName(ifname); err != nil {
		return err
	}
	t.fence.Lock()
	defer t.fence.Unlock()
	delete(t.until, ifname)
	e := fenceOf(ifname)
	if err := errors.Join(t.fence.addElements(e), t.fence.removeElements(e)); err != nil {
		return t.fence.abandon(err)
	}
	if err := t.fence.commit(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("revoke the fence of %s: %w", ifname, err)
	}
	return nil
}

// missing turns the kernel's "no such set" or "no such element" into ErrTampered.
func (t *Table) missing(err error) error {
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	t.signal()
	return ErrTampered
}
