package link

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.io/internal/lb"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// Lifetime of our addresses. They are renewed long before; it is only for
	// those of an agent that does not come back.
	Lifetime = 60 * time.Second
	// Mark is the protocol (IFA_PROTO, "proto" in ip address) of our addresses;
	// the kernel's own are 1 to 3.
	Mark = 0xfa

	// ifaProto is not in the packages we use. Kernels before 5.18 ignore it.
	ifaProto = 11
)

// address is one that an interface has.
type address struct {
	prefix netip.Prefix
	scope  uint8
	flags  uint32
	proto  uint8
	// Lifetimes in seconds as they were when the kernel told; ^0 is for ever.
	valid, preferred uint32
}

// ours says whether the address has our mark. Kernels that do not keep the mark
// cannot tell us: there it is the shape of the address that nobody else gives.
func (a address) ours() bool {
	if a.proto != 0 || keepsMark() {
		return a.proto == Mark
	}
	return a.shapedLikeOurs()
}

func (a address) shapedLikeOurs() bool {
	addr := a.prefix.Addr()
	return a.prefix.IsSingleIP() && a.flags&unix.IFA_F_NOPREFIXROUTE != 0 && a.preferred == 0 &&
		a.valid <= uint32(Lifetime/time.Second) && a.scope == scopeOf(addr)
}

// usable says whether the kernel would use the address as a source.
func (a address) usable() bool {
	return a.flags&(unix.IFA_F_DADFAILED|unix.IFA_F_DEPRECATED) == 0 &&
		(a.flags&unix.IFA_F_TENTATIVE == 0 || a.flags&unix.IFA_F_OPTIMISTIC != 0)
}

// scopeOf our addresses. A source address is chosen among those whose scope is
// as wide as the destination's, so scope host keeps an IPv4 address from being
// chosen; ARP does not look at the scope. IPv6 addresses have the scope they
// have, and being deprecated keeps them from being chosen as long as there is
// another one.
func scopeOf(a netip.Addr) uint8 {
	if lb.FamilyOf(a) == lb.IPv4 {
		return unix.RT_SCOPE_HOST
	}
	return unix.RT_SCOPE_UNIVERSE
}

func familyOf(a netip.Addr) int {
	if lb.FamilyOf(a) == lb.IPv4 {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// fill writes our address a on an interface into a request.
func fill(req *nl.NetlinkRequest, index int, a netip.Addr, valid time.Duration) {
	msg := nl.NewIfAddrmsg(familyOf(a))
	msg.Index = uint32(index)
	msg.Prefixlen = uint8(a.BitLen())
	msg.Scope = scopeOf(a)
	req.AddData(msg)
	flags := binary.NativeEndian.AppendUint32(nil, unix.IFA_F_NOPREFIXROUTE|unix.IFA_F_NODAD)
	lifetimes := nl.IfaCacheInfo{IfaCacheinfo: unix.IfaCacheinfo{Valid: uint32(valid / time.Second)}}
	for _, attr := range []struct {
		kind int
		data []byte
	}{
		{unix.IFA_LOCAL, a.AsSlice()},
		{unix.IFA_ADDRESS, a.AsSlice()},
		{unix.IFA_FLAGS, flags},
		{unix.IFA_CACHEINFO, lifetimes.Serialize()},
		{ifaProto, []byte{Mark}},
	} {
		req.AddData(nl.NewRtAttr(attr.kind, attr.data))
	}
}

// parseAddress reads a message about an address.
func parseAddress(m []byte) (index int, a address, err error) {
	msg := nl.DeserializeIfAddrmsg(m)
	attrs, err := nl.ParseRouteAttr(m[msg.Len():])
	if err != nil {
		return 0, address{}, err
	}
	a = address{scope: msg.Scope, flags: uint32(msg.Flags), valid: ^uint32(0), preferred: ^uint32(0)}
	var local, remote netip.Addr
	for _, attr := range attrs {
		switch attr.Attr.Type {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(attr.Value)
		case unix.IFA_ADDRESS:
			// The other end's on a point-to-point interface, else the same as local,
			// which IPv6 leaves out then.
			remote, _ = netip.AddrFromSlice(attr.Value)
		case unix.IFA_FLAGS:
			a.flags = binary.NativeEndian.Uint32(attr.Value)
		case unix.IFA_CACHEINFO:
			info := nl.DeserializeIfaCacheInfo(attr.Value)
			a.valid, a.preferred = info.Valid, info.Prefered //nolint:misspell // netlink spells it so
		case ifaProto:
			a.proto = attr.Value[0]
		}
	}
	if !local.IsValid() {
		local = remote
	}
	a.prefix = netip.PrefixFrom(local, int(msg.Prefixlen))
	if !a.prefix.IsValid() {
		return 0, address{}, fmt.Errorf("address of interface %d cannot be read", msg.Index)
	}
	return int(msg.Index), a, nil
}

// keepsMark says whether the kernel keeps IFA_PROTO: since 5.18.
var keepsMark = sync.OnceValue(func() bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return true
	}
	return since(unix.ByteSliceToString(name.Release[:]), 5, 18)
})

func since(release string, major, minor int) bool {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return true
	}
	digits := func(s string) int {
		end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
		if end >= 0 {
			s = s[:end]
		}
		n, _ := strconv.Atoi(s)
		return n
	}
	have := digits(parts[0])
	return have > major || have == major && digits(parts[1]) >= minor
}
