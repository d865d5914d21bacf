package lb

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// ParseSpan reads one entry of a pool: a CIDR ("10.0.0.0/24", host bits are
// ignored), a range ("10.0.0.1-10.0.0.9", blanks around the dash are allowed)
// or a single address. Both ends of a range are of one family.
func ParseSpan(s string) (netipx.IPRange, error) {
	s = strings.TrimSpace(s)
	if strings.Contains(s, "/") {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return netipx.IPRange{}, fmt.Errorf("%q is not a CIDR such as 192.0.2.0/24 or 2001:db8::/64", s)
		}
		if p.Addr().Is4In6() {
			return netipx.IPRange{}, fmt.Errorf("%q is an IPv4-mapped IPv6 prefix; write it as IPv4", s)
		}
		return netipx.RangeOfPrefix(p.Masked()), nil
	}
	from, to, isRange := strings.Cut(s, "-")
	first, err := ParseAddr(from)
	if err != nil {
		return netipx.IPRange{}, err
	}
	last := first
	if isRange {
		if last, err = ParseAddr(to); err != nil {
			return netipx.IPRange{}, err
		}
	}
	switch {
	case FamilyOf(first) != FamilyOf(last):
		return netipx.IPRange{}, fmt.Errorf("range %q mixes IPv4 and IPv6", s)
	case last.Less(first):
		return netipx.IPRange{}, fmt.Errorf("range %q ends before it starts", s)
	}
	return netipx.IPRangeFrom(first, last), nil
}

// ParseAddr reads one address, blanks around it are allowed. Zones and
// IPv4-mapped IPv6 addresses are refused: neither can be given to a Service.
func ParseAddr(s string) (netip.Addr, error) {
	s = strings.TrimSpace(s)
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", s)
	case a.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%q has a zone", s)
	case a.Is4In6():
		return netip.Addr{}, fmt.Errorf("%q is an IPv4-mapped IPv6 address; write it as IPv4", s)
	}
	return a, nil
}

// LinkLocal is the kind of addresses that are good on one link only.
const LinkLocal = "link-local"

// unusable are the blocks no Service can be reached at from another host. The
// API server accepts all of them as ingress addresses, so we have to refuse.
var unusable = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), LinkLocal},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcast"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fe80::/10"), LinkLocal},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// Unusable says which kind of addresses in r no Service can have ("loopback",
// "multicast", …), or "" if all are fine, but for kinds that do not count.
func Unusable(r netipx.IPRange, but ...string) string {
	for _, u := range unusable {
		if !slices.Contains(but, u.what) && r.Overlaps(netipx.RangeOfPrefix(u.prefix)) {
			return u.what
		}
	}
	return ""
}

// LinkLocals are the networks of link-local addresses.
func LinkLocals() (out []netip.Prefix) {
	for _, u := range unusable {
		if u.what == LinkLocal {
			out = append(out, u.prefix)
		}
	}
	return out
}

// SpanSize returns how many addresses r has.
func SpanSize(r netipx.IPRange) *big.Int {
	from, to := r.From().As16(), r.To().As16()
	n := new(big.Int).Sub(new(big.Int).SetBytes(to[:]), new(big.Int).SetBytes(from[:]))
	return n.Add(n, big.NewInt(1))
}

// SpanString writes r the short way: an address, a CIDR where it is one, else
// a range.
func SpanString(r netipx.IPRange) string {
	if r.From() == r.To() {
		return r.From().String()
	}
	if p, ok := r.Prefix(); ok {
		return p.String()
	}
	return r.String()
}
