package ipam

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"

	"fairlead.io/internal/lb"
)

// key is an address as a number, for both families: IPv4 uses the low 32 bits.
// It has no pointers, which keeps large trees of them out of the garbage
// collector's way.
type key struct{ hi, lo uint64 }

func keyOf(a netip.Addr) key {
	if a.Is4() {
		b := a.As4()
		return key{lo: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return key{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (k key) addr(f lb.Family) netip.Addr {
	if f == lb.IPv4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(k.lo))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.hi)
	binary.BigEndian.PutUint64(b[8:], k.lo)
	return netip.AddrFrom16(b)
}

func (k key) compare(o key) int {
	if c := cmp.Compare(k.hi, o.hi); c != 0 {
		return c
	}
	return cmp.Compare(k.lo, o.lo)
}

func (k key) less(o key) bool { return k.hi < o.hi || k.hi == o.hi && k.lo < o.lo }

// next returns k+1; ok is false if k is the last of all keys.
func (k key) next() (n key, ok bool) {
	lo, carry := bits.Add64(k.lo, 1, 0)
	hi, carry := bits.Add64(k.hi, 0, carry)
	return key{hi, lo}, carry == 0
}

// prev returns k-1; ok is false if k is 0.
func (k key) prev() (p key, ok bool) {
	lo, borrow := bits.Sub64(k.lo, 1, 0)
	hi, borrow := bits.Sub64(k.hi, 0, borrow)
	return key{hi, lo}, borrow == 0
}

// saturated returns how many keys there are from k to o, at most math.MaxInt64.
func (k key) saturated(o key) int64 {
	lo, borrow := bits.Sub64(o.lo, k.lo, 0)
	hi, _ := bits.Sub64(o.hi, k.hi, borrow)
	if hi > 0 || lo >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo) + 1
}
