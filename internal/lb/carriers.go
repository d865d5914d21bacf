package lb

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// AnyNode stands for the nodes of an address that every node may carry.
const AnyNode = "any node"

// Carriers are the nodes that may carry each address of a Service, sorted; AnyNode
// alone is all of them. An address that is not in it may be carried by none.
//
// It is evidence: it is read from a condition in the status, which tenants cannot
// write.
type Carriers map[netip.Addr][]string

// String is c as the condition says it: "192.0.2.7: worker-1; 192.0.2.8: worker-1,
// worker-2".
func (c Carriers) String() string {
	var parts []string
	for _, a := range slices.SortedFunc(maps.Keys(c), netip.Addr.Compare) {
		if len(c[a]) > 0 {
			parts = append(parts, a.String()+": "+strings.Join(c[a], ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// ParseCarriers reads what String wrote. Of anything else it reads nothing.
func ParseCarriers(text string) Carriers {
	out := Carriers{}
	if text == "" {
		return out
	}
	for part := range strings.SplitSeq(text, "; ") {
		address, nodes, ok := strings.Cut(part, ": ")
		a, err := netip.ParseAddr(address)
		if !ok || err != nil || a.Zone() != "" || a.Is4In6() || out[a] != nil || nodes == "" {
			return Carriers{}
		}
		out[a] = strings.Split(nodes, ", ")
		if slices.Contains(out[a], "") {
			return Carriers{}
		}
	}
	return out
}

// Carry says whether the node of that name may carry a.
func (c Carriers) Carry(a netip.Addr, node string) bool {
	return slices.Contains(c[a], node) || slices.Equal(c[a], []string{AnyNode})
}

// Equal says whether both name the same nodes.
func (c Carriers) Equal(o Carriers) bool { return maps.EqualFunc(c, o, slices.Equal) }
