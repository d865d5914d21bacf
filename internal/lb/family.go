package lb

import "net/netip"

// Family is an IP family. Code is written once and loops over Families.
type Family uint8

const (
	IPv4 Family = iota
	IPv6
)

// Families lists both families in the order in which people read them.
var Families = [...]Family{IPv4, IPv6}

// FamilyOf returns the family of a, which must be valid and unmapped.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

func (f Family) String() string {
	if f == IPv4 {
		return "IPv4"
	}
	return "IPv6"
}

// FamilyPolicy says how many families a Service asks for.
type FamilyPolicy uint8

const (
	SingleStack FamilyPolicy = iota
	PreferDualStack
	RequireDualStack
)
