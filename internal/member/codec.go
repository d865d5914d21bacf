package member

import (
	"encoding/binary"
	"errors"
	"math"
	"net"
	"net/netip"
	"strings"
	"time"
)

// The first byte of everything we send. Another one is ignored, not guessed at.
const format = 2

const (
	// packetSize is the most that memberlist may put into a packet: what IPv6
	// carries everywhere without splitting (1280 bytes less the headers of IPv6
	// and UDP), so also what an overlay leaves of 1500.
	packetSize = 1232
	// messageSize is the most for one of our messages in it, which leaves room for
	// the encryption (29 bytes), for memberlist's framing, and for a piece of its
	// own gossip in the same packet.
	messageSize = 1024
	// Longer names are no node's and no link's: DNS subdomain, IFALIASZ.
	maxName, maxLink = 253, 255
)

var errMalformed = errors.New("malformed message")

// Flags of a report, of an info, of a link and of a claim.
const (
	flagWhole = 1 << iota
	flagGone
)

const (
	flagEligible = 1 << iota
	flagLeaving
	flagSettled
	flagLeft
	flagLastResort
)

const (
	flagV4 = 1 << iota
	flagV6
	flagNoV4
	flagNamedV6
)

const (
	flagUp = 1 << iota
	flagReleased
	flagIs6
	flagLease
	flagRefused
)

// A silence is sent in the list of hardware addresses, as one that is longer than any
// can be (MAX_ADDR_LEN of Linux): members of an earlier version keep it, pass it on, and
// find it on no frame.
const (
	longestMAC = 32
	// maxSilence bounds the text of one, and maxSilences how many are sent.
	maxSilence, maxSilences = 120, 4
)

func (s Silence) bytes() []byte {
	family := "4"
	if s.V6 {
		family = "6"
	}
	text := s.Link + "\x00" + family + s.Why
	text = text[:min(len(text), maxSilence)]
	return []byte(text + strings.Repeat(" ", max(0, longestMAC+1-len(text))))
}

func silenceOf(b []byte) (Silence, bool) {
	name, rest, ok := strings.Cut(string(b), "\x00")
	if !ok || rest == "" || len(b) <= longestMAC {
		return Silence{}, false
	}
	return Silence{Link: name, V6: rest[0] == '6', Why: strings.TrimRight(rest[1:], " ")}, true
}

// encode makes one message of a report.
func encode(r report) []byte { return appendReport([]byte{format}, r) }

func decode(b []byte) (report, error) {
	if len(b) == 0 || b[0] != format {
		return report{}, errMalformed
	}
	return readReport(b[1:])
}

// encodeExchange makes the full state that two members exchange. Synced says
// that the sender knows what there is to know (see Group.Synced).
func encodeExchange(reports []report, synced bool) []byte {
	b := []byte{format, 0}
	if synced {
		b[1] = 1
	}
	for _, r := range reports {
		b = appendBytes(b, appendReport(nil, r))
	}
	return b
}

func decodeExchange(b []byte) (reports []report, synced bool, err error) {
	if len(b) < 2 || b[0] != format {
		return nil, false, errMalformed
	}
	in := reader{b: b[2:]}
	for len(in.b) > 0 && !in.bad {
		one, err := readReport(in.bytes(len(in.b)))
		if err != nil {
			return nil, false, err
		}
		reports = append(reports, one)
	}
	if in.bad {
		return nil, false, errMalformed
	}
	return reports, b[1]&1 != 0, nil
}

func appendReport(b []byte, r report) []byte {
	flags := flag(r.whole, flagWhole) | flag(r.gone >= 0, flagGone)
	b = append(b, flags)
	b = appendBytes(b, []byte(r.node))
	b = binary.AppendUvarint(b, r.incarnation)
	b = binary.AppendUvarint(b, r.after)
	b = binary.AppendUvarint(b, r.floor)
	if r.gone >= 0 {
		b = binary.AppendUvarint(b, uint64(r.gone/time.Second))
	}
	var about []byte
	if r.info.seq > 0 {
		about = appendInfo(nil, r.info)
	}
	b = appendBytes(b, about)
	for _, e := range r.claims {
		b = appendEntry(b, e)
	}
	return b
}

func readReport(b []byte) (report, error) {
	in := reader{b: b}
	flags := in.byte()
	r := report{whole: flags&flagWhole != 0, gone: -1}
	r.node = string(in.bytes(maxName))
	r.incarnation, r.after, r.floor = in.uvarint(), in.uvarint(), in.uvarint()
	if flags&flagGone != 0 {
		r.gone = time.Duration(min(in.uvarint(), uint64(2*memory/time.Second))) * time.Second
	}
	if about := in.bytes(len(in.b)); len(about) > 0 {
		info, err := readInfo(about)
		if err != nil {
			return report{}, err
		}
		r.info = info
	}
	for len(in.b) > 0 && !in.bad {
		r.claims = append(r.claims, in.entry())
	}
	if in.bad || r.node == "" || r.after > r.floor || r.incarnation > math.MaxInt64 || r.last() > math.MaxInt64 {
		return report{}, errMalformed
	}
	return r, nil
}

func appendInfo(b []byte, i info) []byte {
	b = append(b, flag(i.meta.Eligible, flagEligible)|flag(i.meta.Leaving, flagLeaving)|
		flag(i.settled, flagSettled)|flag(i.left, flagLeft)|flag(i.meta.LastResort, flagLastResort))
	b = binary.AppendUvarint(b, i.seq)
	b = binary.AppendUvarint(b, uint64(len(i.meta.Links)))
	for _, l := range i.meta.Links {
		b = append(b, flag(l.V4, flagV4)|flag(l.V6, flagV6)|flag(l.NoV4, flagNoV4)|flag(l.NamedV6, flagNamedV6))
		b = appendBytes(b, []byte(l.Name))
	}
	for _, mac := range i.meta.MACs {
		b = appendBytes(b, mac)
	}
	for _, s := range i.meta.Silences[:min(len(i.meta.Silences), maxSilences)] {
		b = appendBytes(b, s.bytes())
	}
	return b
}

func readInfo(b []byte) (info, error) {
	in := reader{b: b}
	flags := in.byte()
	i := info{
		seq: in.uvarint(), settled: flags&flagSettled != 0, left: flags&flagLeft != 0,
		meta: Meta{Eligible: flags&flagEligible != 0, Leaving: flags&flagLeaving != 0, LastResort: flags&flagLastResort != 0},
	}
	for n := in.uvarint(); n > 0 && !in.bad; n-- {
		flags := in.byte()
		i.meta.Links = append(i.meta.Links, Link{Name: string(in.bytes(maxLink)), V4: flags&flagV4 != 0, V6: flags&flagV6 != 0,
			NoV4: flags&flagNoV4 != 0, NamedV6: flags&flagNamedV6 != 0})
	}
	for len(in.b) > 0 && !in.bad {
		one := in.bytes(maxLink)
		if s, ok := silenceOf(one); ok {
			i.meta.Silences = append(i.meta.Silences, s)
			continue
		}
		i.meta.MACs = append(i.meta.MACs, net.HardwareAddr(append([]byte(nil), one...)))
	}
	if in.bad || i.seq == 0 {
		return info{}, errMalformed
	}
	return i, nil
}

func appendEntry(b []byte, e entry) []byte {
	b = append(b, flag(e.up, flagUp)|flag(e.released, flagReleased)|flag(e.key.Addr.Is6(), flagIs6)|flag(e.key.Lease != "", flagLease)|flag(e.refused, flagRefused))
	if e.key.Lease != "" {
		b = appendBytes(b, []byte(e.key.Lease))
	} else {
		b = append(b, e.key.Addr.AsSlice()...)
	}
	b = binary.AppendUvarint(b, e.seq)
	return binary.AppendUvarint(b, e.epoch)
}

// reader takes a message apart. After the first thing that is not there, bad is
// true and everything is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) entry() entry {
	flags := r.byte()
	e := entry{r.key(flags), stake{seq: r.uvarint(), epoch: r.uvarint(), up: flags&flagUp != 0, released: flags&flagReleased != 0, refused: flags&flagRefused != 0}}
	if e.seq == 0 || !e.key.valid() {
		r.bad = true
	}
	return e
}

// key reads what a claim is for, as the flags of its entry say.
func (r *reader) key(flags byte) Key {
	if flags&flagLease != 0 {
		r.bad = r.bad || flags&flagIs6 != 0
		return Lease(string(r.bytes(maxLease)))
	}
	size := 4
	if flags&flagIs6 != 0 {
		size = 16
	}
	a, _ := netip.AddrFromSlice(r.take(size))
	return Addr(a)
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

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// bytes reads a length of at most limit, and as many bytes.
func (r *reader) bytes(limit int) []byte {
	n := r.uvarint()
	if n > uint64(limit) {
		r.b, r.bad = nil, true
		return nil
	}
	return r.take(int(n))
}

func appendBytes(b, v []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}
