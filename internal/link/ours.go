package link

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"fairlead.io/internal/lb"
	"golang.org/x/sys/unix"
)

var (
	// ErrNoInterface says that there is no interface of that name.
	ErrNoInterface = errors.New("no such interface")
	// ErrOccupied says that the interface has the address without our mark.
	ErrOccupied = errors.New("another program already added the address to the interface")
	// ErrNoGlobal says that the interface has no IPv6 address of its own: ours
	// would be its source address, deprecated or not.
	ErrNoGlobal = errors.New("the interface has no global IPv6 address of its own")
)

// Add puts an address on an interface. It succeeds if it is there from us
// already; then it is renewed.
func (l *Links) Add(ifname string, a netip.Addr) error {
	return l.on("add", ifname, a, func(d *device) error {
		if lb.FamilyOf(a) == lb.IPv6 && !d.view().Global[lb.IPv6] {
			return ErrNoGlobal
		}
		if d.isOwn(a) {
			return ErrOccupied
		}
		err := l.write(unix.RTM_NEWADDR, d.createFlags(a), d, a)
		if errors.Is(err, unix.EEXIST) {
			// It is there, and we have not heard of it yet.
			if err := l.readAddresses(l.devices); err != nil {
				return err
			}
			if d.isOwn(a) {
				return ErrOccupied
			}
			err = l.write(unix.RTM_NEWADDR, d.createFlags(a), d, a)
		}
		if err == nil {
			d.ours[a] = fresh(a)
		}
		return err
	})
}

// Remove takes our address off an interface. It succeeds if it is not there,
// or the interface is not.
func (l *Links) Remove(ifname string, a netip.Addr) error {
	err := l.on("remove", ifname, a, func(d *device) error {
		if _, known := d.ours[a]; !known {
			return nil
		}
		err := l.write(unix.RTM_DELADDR, 0, d, a)
		if err == nil || errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV) {
			delete(d.ours, a)
			return nil
		}
		return err
	})
	if errors.Is(err, ErrNoInterface) {
		return nil
	}
	return err
}

// Renew restarts the lifetimes of our addresses. Those that are not there
// any more, because they have run out or somebody has removed them, are in
// missing and are not added.
func (l *Links) Renew(addresses []Address) (missing []Address, err error) {
	for _, a := range addresses {
		there := false
		failed := l.on("renew", a.Interface, a.Addr, func(d *device) error {
			if _, there = d.ours[a.Addr]; !there {
				return nil
			}
			return l.write(unix.RTM_NEWADDR, unix.NLM_F_REPLACE, d, a.Addr)
		})
		switch {
		case errors.Is(failed, ErrNoInterface), failed == nil && !there:
			missing = append(missing, a)
		default:
			err = errors.Join(err, failed)
		}
	}
	return missing, err
}

// on calls do with the device of a name, while nothing else changes.
func (l *Links) on(verb, ifname string, a netip.Addr, do func(*device) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := ErrNoInterface
	for _, d := range l.devices {
		if d.link.Name == ifname {
			err = do(d)
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s %v on %s: %w", verb, a, ifname, err)
	}
	return nil
}

func (l *Links) write(kind, flags int, d *device, a netip.Addr) error {
	req := l.request(kind, flags|unix.NLM_F_ACK)
	fill(req, d.link.Index, a, Lifetime)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// createFlags are for a request to add an address: an address that is not known
// to be ours must not be replaced.
func (d *device) createFlags(a netip.Addr) int {
	if _, known := d.ours[a]; known {
		return unix.NLM_F_REPLACE
	}
	return unix.NLM_F_CREATE | unix.NLM_F_EXCL
}

// fresh is our address as the kernel has it after it was added.
func fresh(a netip.Addr) address {
	return address{
		prefix: netip.PrefixFrom(a, a.BitLen()),
		scope:  scopeOf(a),
		flags:  unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_NODAD | unix.IFA_F_DEPRECATED,
		proto:  Mark,
		valid:  uint32(Lifetime / time.Second),
	}
}
