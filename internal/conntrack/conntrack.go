package conntrack

import (
	"fmt"
	"iter"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Conn is a connection as the client sees it: the original direction, before translation.
type Conn struct {
	Protocol        uint8 // unix.IPPROTO_TCP or unix.IPPROTO_UDP
	Client, Service netip.AddrPort
}

// Tracked is a connection as the kernel has it.
type Tracked struct {
	Conn
	// Opening: the client has not acknowledged the answer to its first packet yet. Anybody who
	// forges source addresses can make very many of these.
	Opening bool
}

// Limit is how many connections List returns at most that are not Known. They are kept in memory
// and sent to other nodes, and a table of the kernel may have millions.
const Limit = 1 << 16

// OpeningLimit is how many of each address List returns at most that are being opened and not
// Known. They never take the place of others.
const OpeningLimit = 1 << 8

var limit, openingLimit = Limit, OpeningLimit // less in tests

// ErrTooMany says that there are more than Limit connections.
var ErrTooMany = fmt.Errorf("more than %d connections", Limit)

// Rank is how much a connection is wanted.
type Rank int

const (
	// Other connections are returned, but not more than Limit of them.
	Other Rank = iota
	// Known ones are returned in any case.
	Known
	// Unwanted ones are not.
	Unwanted
)

// List reads the table once and returns the connections to addresses for which of is true,
// in no order. It returns those that go on: TCP from the first answer to the last
// acknowledgement, and UDP; both only if an answer was seen. Connections in zones other than the
// default one are not a Service's. Rank may be nil: all are Other.
//
// With ErrTooMany it returns Limit of them, besides those that are Known. That there are too many
// that are being opened is no error.
func List(of func(netip.Addr) bool, rank func(Conn) Rank) ([]Tracked, error) {
	return ListIn(0, of, rank)
}

// ListIn is List in the network namespace of a file descriptor; 0 is the calling thread's.
// Entering a namespace takes CAP_SYS_ADMIN.
func ListIn(netns int, of func(netip.Addr) bool, rank func(Conn) Rank) ([]Tracked, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return nil, fmt.Errorf("open connection tracking: %w", err)
	}
	defer func() { _ = c.Close() }()
	found := picked{opening: map[netip.Addr]int{}}
	for m, err := range dump(c) {
		if err != nil {
			return nil, err
		}
		if e, ok := decode(uint16(m.Header.Type), m.Data, of); ok && e.goesOn() {
			found.add(Tracked{e.Conn, e.opening()}, rank)
		}
	}
	return found.all, found.err
}

// dump reads the table.
func dump(c *netlink.Conn) iter.Seq2[netlink.Message, error] {
	return func(yield func(netlink.Message, error) bool) {
		_, err := c.Send(netlink.Message{
			Header: netlink.Header{
				Type:  unix.NFNL_SUBSYS_CTNETLINK<<8 | msgGet,
				Flags: netlink.Request | netlink.Dump,
			},
			Data: []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0},
		})
		if err != nil {
			yield(netlink.Message{}, fmt.Errorf("read connection tracking: %w", err))
			return
		}
		for m, err := range c.ReceiveIter() {
			if err != nil {
				err = fmt.Errorf("read connection tracking: %w", err)
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// picked are the connections that List returns.
type picked struct {
	all      []Tracked
	others   int                // that are open
	opening  map[netip.Addr]int // others that are not, of each address; no more than limit in all
	openings int
	err      error
}

func (p *picked) add(c Tracked, rank func(Conn) Rank) {
	r := Other
	if rank != nil {
		r = rank(c.Conn)
	}
	to := c.Service.Addr()
	switch {
	case r == Unwanted:
		return
	case r == Known:
	case c.Opening && (p.opening[to] == openingLimit || p.openings == limit):
		return
	case c.Opening:
		p.opening[to]++
		p.openings++
	case p.others == limit:
		p.err = ErrTooMany
		return
	default:
		p.others++
	}
	p.all = append(p.all, c)
}
