package cloudscale

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Card is a network card that gets the addresses of load balancers.
type Card struct{ link netlink.Link }

// FindCard finds one by its name, in the network namespace of the thread.
func FindCard(name string) (*Card, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find network card %s: %w", name, err)
	}
	return &Card{link}, nil
}

func (c *Card) add(a netip.Addr) error {
	err := netlink.AddrAdd(c.link, host(a))
	if errors.Is(err, unix.EEXIST) {
		return nil // of an earlier run
	}
	return err
}

func (c *Card) remove(a netip.Addr) error { return netlink.AddrDel(c.link, host(a)) }

// host is an address alone, usable at once, and never the source of a
// connection to a member.
func host(a netip.Addr) *netlink.Addr {
	return &netlink.Addr{
		IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())},
		Flags: unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE,
		Scope: int(netlink.SCOPE_UNIVERSE), ValidLft: math.MaxUint32,
	}
}
