package link

import (
	"bytes"
	"net"
	"net/netip"
	"slices"

	"fairlead.io/internal/lb"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Link is an interface.
type Link struct {
	Name  string
	Index int
	MAC   net.HardwareAddr
	// Up says that it is set up and has a carrier.
	Up bool
	// Global says by family whether it has a usable address of global scope of
	// its own.
	Global [2]bool
	// Default says by family whether the node's default route leads out of it.
	Default [2]bool
	// Prefixes are its own addresses with their prefix lengths, without ours, in
	// order.
	Prefixes []netip.Prefix
	// Slave says that it is a port of a bridge, bond or team, so that addresses
	// belong on that. A member of a VRF is none.
	Slave bool
	// Master is the index of the interface that it is a port of; 0: of none. Bridge says that
	// it is a bridge itself.
	Master   int
	Bridge   bool
	Loopback bool
	// Crossing says that its other end, or what it is based on, is in another network
	// namespace, as of the interface that leads to a pod. In a node that is a container
	// itself, it is so of all.
	Crossing bool
	// Silent is by family why the kernel does not answer for our addresses here; empty
	// if it does.
	Silent [2]string
	// Strict says that the kernel drops IPv4 packets that arrive here from addresses to which
	// its routes lead elsewhere (rp_filter).
	Strict bool
}

func (l Link) equal(o Link) bool {
	return l.Name == o.Name && l.Index == o.Index && bytes.Equal(l.MAC, o.MAC) && l.Up == o.Up &&
		l.Global == o.Global && l.Default == o.Default && slices.Equal(l.Prefixes, o.Prefixes) && l.Slave == o.Slave && l.Master == o.Master && l.Bridge == o.Bridge && l.Loopback == o.Loopback &&
		l.Crossing == o.Crossing && l.Silent == o.Silent && l.Strict == o.Strict
}

// Address is one of ours on an interface.
type Address struct {
	Interface string
	Addr      netip.Addr
}

// device is what we know of an interface.
type device struct {
	link     Link // without addresses
	ours     map[netip.Addr]address
	own      map[netip.Prefix]address // IPv4 may have one address with several prefixes
	settings settings
}

func newDevice(l Link) *device {
	return &device{link: l, ours: map[netip.Addr]address{}, own: map[netip.Prefix]address{}, settings: settingsOf(l.Name)}
}

// put notes an address, and says whether it is news.
func (d *device) put(a address) bool {
	addr := a.prefix.Addr()
	if a.ours() {
		_, wasOwn := d.own[a.prefix]
		_, known := d.ours[addr]
		delete(d.own, a.prefix)
		d.ours[addr] = a
		return wasOwn || !known
	}
	wasOurs := d.ours[addr].prefix == a.prefix
	if wasOurs {
		delete(d.ours, addr)
	}
	old, known := d.own[a.prefix]
	d.own[a.prefix] = a
	return wasOurs || !known || old.scope != a.scope || old.usable() != a.usable()
}

// drop forgets an address, and says whether it was known.
func (d *device) drop(p netip.Prefix) bool {
	if d.ours[p.Addr()].prefix == p {
		delete(d.ours, p.Addr())
		return true
	}
	_, known := d.own[p]
	delete(d.own, p)
	return known
}

// isOwn says whether the interface has an address that is not from us.
func (d *device) isOwn(a netip.Addr) bool {
	for p := range d.own {
		if p.Addr() == a {
			return true
		}
	}
	return false
}

// parseLink reads a message about an interface.
func parseLink(m []byte) (Link, error) {
	raw, err := netlink.LinkDeserialize(nil, m)
	if err != nil {
		return Link{}, err
	}
	attrs := raw.Attrs()
	_, vrf := attrs.Slave.(*netlink.VrfSlave)
	// IFF_RUNNING is also set where a driver does not know its operational state.
	const up = unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP
	return Link{
		Name:     attrs.Name,
		Index:    attrs.Index,
		MAC:      attrs.HardwareAddr,
		Up:       attrs.RawFlags&up == up,
		Slave:    attrs.MasterIndex != 0 && !vrf,
		Master:   attrs.MasterIndex,
		Bridge:   raw.Type() == "bridge",
		Loopback: attrs.RawFlags&unix.IFF_LOOPBACK != 0,
		Crossing: attrs.NetNsID >= 0,
	}, nil
}

// view returns the interface with what its addresses say.
func (d *device) view() Link {
	l := d.link
	l.Silent, l.Strict = d.settings.silent, d.settings.strict
	for _, a := range d.own {
		l.Prefixes = append(l.Prefixes, a.prefix)
		if a.scope == unix.RT_SCOPE_UNIVERSE && a.usable() {
			l.Global[lb.FamilyOf(a.prefix.Addr())] = true
		}
	}
	slices.SortFunc(l.Prefixes, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	return l
}
