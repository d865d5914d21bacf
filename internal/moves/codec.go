package moves

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"time"

	"fairlead.io/internal/conntrack"
)

// The first two bytes of a message are the version and what follows. Another version is
// ignored: the connections of such a node are not kept.
const (
	version  = 1
	kindWant = 1
	kindPage = 2
)

const (
	// MaxListed is how many connections one node lists to another. A list of as many IPv6
	// connections takes two megabytes in all.
	MaxListed = 1 << 16
	// maxPage is how many connections a page has.
	maxPage = 1 << 13
	// maxWanted is how many addresses one node asks another one for.
	maxWanted = 1 << 14
	// maxNeighbours is how many addresses of its own a node tells.
	maxNeighbours = 64
	// maxAge bounds what is said about the past.
	maxAge = 30 * 24 * time.Hour
)

// Protocols of IP that are listed.
const (
	protoTCP = 6
	protoUDP = 17
)

var errMalformed = errors.New("malformed message")

// Want asks a node for its connections of addresses, all that are wanted of it: it forgets
// what is not in here.
type Want struct {
	// Stream numbers the asking. Pages that answer have the same.
	Stream uint64
	// Addresses with the epoch of the claim.
	Addresses map[netip.Addr]uint64
}

// Neighbour is an address at which a node answers on a segment, and its hardware address.
type Neighbour struct {
	Addr netip.Addr
	MAC  [6]byte
}

// Hardware returns the hardware address.
func (n Neighbour) Hardware() net.HardwareAddr { return n.MAC[:] }

// Page is a part of an answer.
type Page struct {
	Stream uint64
	// Series is another one if the node begins anew.
	Series uint64
	// Number counts the pages of a series, from 0. One without parts has the number of the
	// next: it says that there was nothing else.
	Number     uint64
	Neighbours []Neighbour // in the first page
	Parts      []Part
}

// Part is what a page says about one address.
type Part struct {
	Address netip.Addr
	Epoch   uint64
	// Whole begins a list; without it, a part has differences.
	Whole bool
	// Done: with this part, all that the node has is listed.
	Done bool
	// Final: the node does not announce the address any more, and has read the list since.
	Final bool
	// Over: the node has no connections of the address, and expects none.
	Over bool
	// Released is how long ago the node gave the address up; negative: it does not know.
	Released    time.Duration
	Add, Remove []conntrack.Conn
}

const (
	flagWhole = 1 << iota
	flagDone
	flagFinal
	flagOver
	flagReleased
)

// Encode returns the message.
func (w Want) Encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte{version, kindWant}, w.Stream)
	for addr, epoch := range w.Addresses {
		b = appendAddr(b, addr)
		b = binary.AppendUvarint(b, epoch)
	}
	return b
}

// Encode returns the message.
func (p Page) Encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte{version, kindPage}, p.Stream)
	b = binary.BigEndian.AppendUint64(b, p.Series)
	b = binary.AppendUvarint(b, p.Number)
	b = binary.AppendUvarint(b, uint64(len(p.Neighbours)))
	for _, n := range p.Neighbours {
		b = appendAddr(b, n.Addr)
		b = append(b, n.MAC[:]...)
	}
	for _, part := range p.Parts {
		flags := flag(part.Whole, flagWhole) | flag(part.Done, flagDone) | flag(part.Final, flagFinal) | flag(part.Over, flagOver) | flag(part.Released >= 0, flagReleased)
		b = append(b, flags)
		b = appendAddr(b, part.Address)
		b = binary.AppendUvarint(b, part.Epoch)
		if part.Released >= 0 {
			b = binary.AppendUvarint(b, uint64(part.Released/time.Millisecond))
		}
		for _, list := range [][]conntrack.Conn{part.Add, part.Remove} {
			b = binary.AppendUvarint(b, uint64(len(list)))
			for _, c := range list {
				b = append(b, c.Protocol)
				b = append(b, c.Client.Addr().AsSlice()...)
				b = binary.BigEndian.AppendUint16(b, c.Client.Port())
				b = binary.BigEndian.AppendUint16(b, c.Service.Port())
			}
		}
	}
	return b
}

// Decode returns a Want or a Page.
func Decode(b []byte) (any, error) {
	if len(b) < 10 || b[0] != version {
		return nil, errMalformed
	}
	in := reader{b: b[10:]}
	stream := binary.BigEndian.Uint64(b[2:])
	switch b[1] {
	case kindWant:
		w := Want{Stream: stream, Addresses: map[netip.Addr]uint64{}}
		for len(in.b) > 0 && !in.bad {
			addr := in.addr()
			w.Addresses[addr] = in.uvarint()
			in.bad = in.bad || len(w.Addresses) > maxWanted
		}
		return w, in.err()
	case kindPage:
		p := Page{Stream: stream, Series: in.uint64(), Number: in.uvarint()}
		for n := in.count(maxNeighbours, 11); n > 0 && !in.bad; n-- {
			one := Neighbour{Addr: in.addr()}
			copy(one.MAC[:], in.take(6))
			p.Neighbours = append(p.Neighbours, one)
		}
		for listed := 0; len(in.b) > 0 && !in.bad; {
			part := in.part()
			p.Parts = append(p.Parts, part)
			listed += len(part.Add) + len(part.Remove)
			in.bad = in.bad || listed > 2*maxPage || len(p.Parts) > maxWanted
		}
		return p, in.err()
	}
	return nil, errMalformed
}

func (r *reader) part() Part {
	flags := r.byte()
	p := Part{Whole: flags&flagWhole != 0, Done: flags&flagDone != 0, Final: flags&flagFinal != 0, Over: flags&flagOver != 0, Released: -1}
	p.Address = r.addr()
	p.Epoch = r.uvarint()
	if flags&flagReleased != 0 {
		p.Released = time.Duration(min(r.uvarint(), uint64(maxAge/time.Millisecond))) * time.Millisecond
	}
	size := len(p.Address.AsSlice())
	for _, list := range []*[]conntrack.Conn{&p.Add, &p.Remove} {
		for n := r.count(maxPage, size+5); n > 0 && !r.bad; n-- {
			c := conntrack.Conn{Protocol: r.byte()}
			client, _ := netip.AddrFromSlice(r.take(size))
			c.Client = netip.AddrPortFrom(client, r.uint16())
			c.Service = netip.AddrPortFrom(p.Address, r.uint16())
			// A later version may list what this one cannot hand on.
			if (c.Protocol == protoTCP || c.Protocol == protoUDP) && !client.Is4In6() {
				*list = append(*list, c)
			}
		}
	}
	return p
}

func appendAddr(b []byte, a netip.Addr) []byte {
	s := a.Unmap().AsSlice()
	return append(append(b, byte(len(s))), s...)
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// reader takes a message apart. After the first thing that is not there, bad is true and
// everything is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) err() error {
	if r.bad {
		return errMalformed
	}
	return nil
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.b, r.bad = nil, true
		return nil
	}
	head := r.b[:n]
	r.b = r.b[n:]
	return head
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads how many things of at least that size follow.
func (r *reader) count(limit, size int) int {
	n := r.uvarint()
	if n > uint64(limit) || int(n)*size > len(r.b) {
		r.b, r.bad = nil, true
		return 0
	}
	return int(n)
}

// addr reads an address: 4 or 16 bytes, never IPv4 in IPv6.
func (r *reader) addr() netip.Addr {
	a, ok := netip.AddrFromSlice(r.take(int(r.byte())))
	if !ok || a.Is4In6() {
		r.b, r.bad = nil, true
		return netip.Addr{}
	}
	return a
}
