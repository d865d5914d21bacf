package conntrack

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// stray is an entry of a connection that nobody has translated, and to which there was no
// answer.
type stray struct {
	family uint8
	orig   []byte // the tuple of the original direction, as the kernel has it
	id     []byte
}

// RemoveStrays removes entries of connections to addresses for which of is true that nobody has
// translated, and to which there was no answer. The kernel makes one if a packet to the address of
// a Service arrives while kube-proxy has no rule for it. It never translates a connection later,
// so a client that uses the port again would not be served, for up to two minutes.
//
// It returns how many it has removed.
func RemoveStrays(of func(netip.Addr) bool) (int, error) { return RemoveStraysIn(0, of) }

// RemoveStraysIn is RemoveStrays in the network namespace of a file descriptor, as ListIn is List.
func RemoveStraysIn(netns int, of func(netip.Addr) bool) (n int, err error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return 0, fmt.Errorf("open connection tracking: %w", err)
	}
	defer func() { _ = c.Close() }()
	var all []stray
	for m, err := range dump(c) {
		if err != nil {
			return 0, err
		}
		if s, is := strayOf(uint16(m.Header.Type), m.Data, of); is && len(all) < limit {
			all = append(all, s)
		}
	}
	for _, s := range all {
		attributes, err := netlink.MarshalAttributes([]netlink.Attribute{
			{Type: attrTupleOrig | unix.NLA_F_NESTED, Data: s.orig},
			{Type: attrID, Data: s.id}, // no other one that has come since
		})
		if err != nil {
			return n, err
		}
		_, err = c.Execute(netlink.Message{
			Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK<<8 | msgDelete, Flags: netlink.Request | netlink.Acknowledge},
			Data:   append([]byte{s.family, unix.NFNETLINK_V0, 0, 0}, attributes...),
		})
		switch {
		case errors.Is(err, unix.ENOENT): // it has ended by itself
		case err != nil:
			return n, fmt.Errorf("remove an entry of connection tracking: %w", err)
		default:
			n++
		}
	}
	return n, nil
}

// strayOf reads a message, if it is of such a connection.
func strayOf(kind uint16, data []byte, of func(netip.Addr) bool) (s stray, is bool) {
	e, ok := decode(kind, data, of)
	if !ok || e.gone || !e.hasStatus || e.status&seenReply != 0 {
		return stray{}, false
	}
	var answer entry
	for kind, value := range attributes(data[genericHeader:]) {
		switch kind {
		case attrTupleOrig:
			s.orig = slices.Clone(value)
		case attrTupleReply:
			ok = answer.tuple(value)
		case attrID:
			s.id = slices.Clone(value)
		}
	}
	s.family = unix.AF_INET
	if e.Service.Addr().Is6() {
		s.family = unix.AF_INET6
	}
	// Who would answer is whom the client asked: there is no translation.
	return s, ok && s.orig != nil && s.id != nil && answer.Client == e.Service && answer.Service == e.Client
}
