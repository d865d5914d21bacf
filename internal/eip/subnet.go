package eip

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

func (v *View) subnet(name string) *kubeovn.Subnet {
	for _, s := range v.Subnets {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// choice is the external subnet for a new OvnEip.
type choice struct {
	subnet string
	// attach says that the router has no port there yet. The OvnEip waits for it.
	attach bool
	// why there is none.
	why string
}

// subnetFor chooses where the address of an EIp is from: the project's default subnet if
// it is of the type that is asked for; else one in which the router has a port already;
// else the one with the most free addresses. A requested address must be in it.
func (v *View) subnetFor(e *api.EIp) choice {
	if v.Place == nil {
		return choice{why: fmt.Sprintf("namespace %s is not that of a project", v.Namespace)}
	}
	fixed := parseRequest(e.Annotations[AnnotationAddress])
	kind := e.Spec.ExternalNetworkType
	if kind == "" && len(fixed) == 0 {
		kind = v.Place.NetworkType
	}
	fits := func(s *kubeovn.Subnet) bool {
		return (kind == "" || s.Labels[kubedc.LabelNetworkType] == kind) &&
			!slices.ContainsFunc(fixed, func(a netip.Addr) bool { return !contains(s, a) })
	}
	if s := v.formerSubnet(e); s != "" && len(fixed) == 0 {
		return choice{subnet: s}
	}
	if s := v.subnet(v.Place.Subnet); s != nil && fits(s) || v.Place.Subnet != "" && s == nil && e.Spec.ExternalNetworkType == "" {
		return choice{subnet: v.Place.Subnet}
	}
	var candidates []*kubeovn.Subnet
	for _, s := range v.Subnets {
		if s.Labels[kubedc.LabelNetworkType] != "" && s.DeletionTimestamp == nil && len(prefixes(s)) > 0 && fits(s) {
			candidates = append(candidates, s)
		}
	}
	if len(candidates) == 0 || kind == "" && len(fixed) == 0 {
		return choice{why: none(kind, fixed)}
	}
	slices.SortFunc(candidates, func(a, b *kubeovn.Subnet) int {
		return cmp.Or(ranked(v.attached(b.Name))-ranked(v.attached(a.Name)), free(b).Cmp(free(a)), cmp.Compare(a.Name, b.Name))
	})
	best := candidates[0]
	return choice{subnet: best.Name, attach: !v.attached(best.Name)}
}

// formerSubnet is the external subnet of the address that an EIp had, if the router still
// has a port there.
func (v *View) formerSubnet(e *api.EIp) string {
	a, err := lb.ParseAddr(e.Status.IPAddress)
	if err != nil {
		return ""
	}
	for _, s := range v.Subnets {
		if contains(s, a) && s.Labels[kubedc.LabelNetworkType] != "" && (s.Name == v.Place.Subnet || v.attached(s.Name)) {
			return s.Name
		}
	}
	return ""
}

func none(kind string, fixed []netip.Addr) string {
	switch {
	case len(fixed) > 0:
		return fmt.Sprintf("no external subnet%s contains %s", ofType(kind), prose.Addrs(fixed))
	case kind == "":
		return "the project has no default external subnet, and no network type is requested"
	}
	return fmt.Sprintf("there is no external subnet%s", ofType(kind))
}

func ofType(kind string) string {
	if kind == "" {
		return ""
	}
	return " of type " + kind
}

func ranked(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// attached says whether the project's router has its port in an external subnet.
func (v *View) attached(subnet string) bool {
	gateway := v.OvnEips[v.Place.Gateway(subnet)]
	return v.Place.Vpc != "" && gateway != nil && gateway.Status.Ready && gateway.DeletionTimestamp == nil
}

// attach is the step that gives the router a port in an external subnet; none if it was
// done, or if there is no Vpc.
func (v *View) attach(subnet string) []lb.Step {
	vpc := v.Vpcs[v.Place.Vpc]
	if vpc == nil || vpc.Spec.EnableExternal && slices.Contains(vpc.Spec.ExtraExternalSubnets, subnet) {
		return nil
	}
	list := vpc.Spec.ExtraExternalSubnets
	if !slices.Contains(list, subnet) {
		list = append(slices.Clone(list), subnet)
	}
	return []lb.Step{patch("Vpc", vpc, map[string]any{"spec": map[string]any{"enableExternal": true, "extraExternalSubnets": list}}, false,
		lb.Change{Field: "extraExternalSubnets", From: fmt.Sprint(vpc.Spec.ExtraExternalSubnets), To: fmt.Sprint(list)})}
}

func contains(s *kubeovn.Subnet, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes(s), func(p netip.Prefix) bool { return p.Contains(a) })
}

// prefixes are the networks of a subnet: none if what it says makes no sense.
func prefixes(s *kubeovn.Subnet) (out []netip.Prefix) {
	for field := range strings.SplitSeq(s.Spec.CIDRBlock, ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(field)); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// free is how many addresses a subnet has left, of the family that decides.
func free(s *kubeovn.Subnet) *big.Float {
	n, ok := new(big.Float).SetString(string(freeCount(s)))
	if !ok {
		return new(big.Float)
	}
	return n
}

func freeCount(s *kubeovn.Subnet) kubeovn.Count {
	if s.Spec.Protocol == lb.IPv6.String() {
		return s.Status.V6Available
	}
	return s.Status.V4Available
}

// freeText is how many addresses a subnet has left, as a clause.
func (v *View) freeText(name string) string {
	s := v.subnet(name)
	if s == nil {
		return fmt.Sprintf("subnet %q does not exist", name)
	}
	family := lb.IPv4
	if s.Spec.Protocol == lb.IPv6.String() {
		family = lb.IPv6
	}
	return fmt.Sprintf("subnet %s has %s free %s addresses", name, cmp.Or(string(freeCount(s)), "0"), family)
}
