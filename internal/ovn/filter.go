package ovn

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go4.org/netipx"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovsdb"
)

// How sources are filtered. A port group has the switch ports that lead to the router from
// outside. Its rules drop what is for a virtual address and comes from other sources,
// before the router translates. They need no connection tracking, which OVN does not do
// for packets to routers. The rules are the port group's, not the switch's: kube-ovn
// removes those of its switches. They only ever drop, so nothing is let in that somebody
// else's rules keep out.
const (
	ruleDirection = "to-lport"
	ruleAction    = "drop"
	rulePriority  = 32767 // the highest

	// keyKept is a key in external_ids. When kube-ovn-controller starts, it removes all
	// port groups that no security group has, except those with this key. It is the one
	// of network policies, whose values have a slash.
	keyKept = "np"

	// maxSources is how many networks a rule may have. Each one is a flow in OVN.
	maxSources = 2000
)

// Filter is a port group with its rules.
type Filter struct {
	UUID, Name  string
	Ports       []string // UUIDs of switch ports, sorted
	Rules       []Rule   // sorted
	ExternalIDs map[string]string
}

// Rule is a row of the table ACL. One that cannot be seen, as it says nothing of us, has
// nothing but a UUID.
type Rule struct {
	UUID, Direction, Action, Match string
	Priority                       int
}

// exact says whether the rule does what it is for.
func (r Rule) exact(match string) bool {
	return r.Direction == ruleDirection && r.Action == ruleAction && r.Priority == rulePriority && r.Match == match
}

func compareRules(a, b Rule) int {
	return cmp.Or(cmp.Compare(a.Match, b.Match), cmp.Compare(a.UUID, b.UUID))
}

// Entrance is a port of the router to the outside, with the switch ports that lead there.
type Entrance struct {
	Port  string
	Peers []string // UUIDs, sorted
}

// FilterName is the name of the Service's port group. It has no characters that OVN does
// not allow, and nobody else has the same.
func (s *Service) FilterName(cluster string) string {
	sum := sha256.Sum256([]byte(cluster + "\x00" + s.Key()))
	return "fairlead_" + hex.EncodeToString(sum[:10])
}

func (s *Service) filterIdentity(cluster string) map[string]string {
	ids := s.identity(cluster)
	ids[keyKept] = Vendor
	return ids
}

// drops are what the rules of a Service match, sorted. why is not "" if that cannot be
// said.
func (s *Service) drops() (out []string, why string) {
	if !s.Restricted {
		return nil, ""
	}
	words := map[lb.Family]string{lb.IPv4: "ip4", lb.IPv6: "ip6"}
	others := map[lb.Family]string{}
	for _, f := range lb.Families {
		networks := complement(f, s.Sources)
		if len(networks) > maxSources {
			return nil, fmt.Sprintf("they are too many: OVN would need a flow for each of %d networks outside them", len(networks))
		}
		switch {
		case len(networks) == 0: // all are allowed
		case networks[0].Bits() == 0: // none is
			others[f] = words[f]
		default:
			others[f] = fmt.Sprintf("%s.src == {%s}", words[f], joinedPrefixes(networks))
		}
	}
	type at struct {
		protocol string
		addr     netip.Addr
	}
	ports := map[at][]int{}
	for _, l := range s.Listeners {
		ports[at{l.Protocol, l.VIP.Addr()}] = append(ports[at{l.Protocol, l.VIP.Addr()}], int(l.VIP.Port()))
	}
	for a, numbers := range ports {
		f := lb.FamilyOf(a.addr)
		if others[f] == "" {
			continue
		}
		slices.Sort(numbers)
		out = append(out, fmt.Sprintf("%s.dst == %s && %s.dst == {%s} && %s", words[f], a.addr, a.protocol, joinedInts(slices.Compact(numbers)), others[f]))
	}
	slices.Sort(out)
	return out, ""
}

// complement are all networks of a family outside of those that are allowed.
func complement(f lb.Family, allowed []netip.Prefix) []netip.Prefix {
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if f == lb.IPv6 {
		all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	var b netipx.IPSetBuilder
	b.AddPrefix(all)
	for _, p := range allowed {
		if lb.FamilyOf(p.Addr()) == f {
			b.RemovePrefix(p)
		}
	}
	set, err := b.IPSet()
	if err != nil { // an invalid network, which allows nobody
		return []netip.Prefix{all}
	}
	return set.Prefixes()
}

func joinedPrefixes(networks []netip.Prefix) string {
	texts := make([]string, len(networks))
	for i, n := range networks {
		texts[i] = n.String()
	}
	return strings.Join(texts, ", ")
}

func joinedInts(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ")
}

// kindFilter is the kind of filters in plans.
const kindFilter = "source filter"

// What steps do with filters, in their Body.
type (
	createFilter struct {
		name    string
		owner   map[string]string
		ports   []string
		matches []string
	}
	// changeFilter sets columns. Rules are replaced, unless matches is nil.
	changeFilter struct {
		was     *Filter
		owner   map[string]string
		columns map[string]any
		matches []string
	}
	removeFilter struct {
		was   *Filter
		exact bool
	}
)

// unguarded is the first entrance at which packets cannot be filtered; "" if there is
// none.
func unguarded(entrances []Entrance) string {
	for _, e := range entrances {
		if len(e.Peers) == 0 {
			return fmt.Sprintf("no logical switch leads to the router's port %s", e.Port)
		}
	}
	return ""
}

// filter has the steps that make the filter as it is to be.
func (v *View) filter(s *Service, matches []string, seen *Seen) {
	var was *Filter
	for _, f := range seen.Filters {
		if was == nil && len(matches) > 0 {
			was = f
		} else {
			v.removeFilter(f)
		}
	}
	if len(matches) == 0 {
		return
	}
	var ports []string
	for _, e := range seen.Entrances {
		ports = append(ports, e.Peers...)
	}
	slices.Sort(ports)
	ports = slices.Compact(ports)
	why, impact := "only for "+cmp.Or(joinedPrefixes(s.Sources), "nobody"), lb.ImpactNone
	if v.Had {
		impact = lb.ImpactNewConnections
	}
	name, owner := s.FilterName(seen.Cluster), s.filterIdentity(seen.Cluster)
	if was == nil {
		v.add(lb.Step{Verb: lb.VerbCreate, Kind: kindFilter, Name: name, Why: why, Impact: impact, Body: createFilter{name, owner, ports, matches}})
		return
	}
	v.updateFilter(was, name, owner, ports, matches, why)
}

func (v *View) updateFilter(was *Filter, name string, owner map[string]string, ports, matches []string, why string) {
	body := changeFilter{was: was, owner: owner, columns: map[string]any{}}
	step := lb.Step{Verb: lb.VerbUpdate, Kind: kindFilter, Name: name, ID: was.UUID, Why: why}
	if was.Name != name {
		body.columns["name"] = name
		step.Changes = append(step.Changes, lb.Change{Field: "name", From: was.Name, To: name})
	}
	if !slices.Equal(was.Ports, ports) {
		body.columns["ports"] = uuids(ports)
		step.Changes = append(step.Changes, lb.Change{Field: "ports", From: strconv.Itoa(len(was.Ports)), To: strconv.Itoa(len(ports))})
	}
	if !slices.EqualFunc(was.Rules, matches, Rule.exact) {
		body.matches = matches
		step.Changes = append(step.Changes, lb.Change{Field: "rules", From: strconv.Itoa(len(was.Rules)), To: strconv.Itoa(len(matches))})
		step.Impact = lb.ImpactNewConnections
	}
	ids := maps.Clone(was.ExternalIDs)
	maps.Copy(ids, owner)
	if changes := mapChanges("external_ids:", was.ExternalIDs, ids); len(changes) > 0 {
		body.columns["external_ids"] = ovsdb.MapOf(ids)
		step.Changes = append(step.Changes, changes...)
	}
	if len(step.Changes) > 0 {
		step.Body = body
		v.add(step)
	}
}

func (v *View) removeFilter(f *Filter) {
	v.add(lb.Step{Verb: lb.VerbDelete, Kind: kindFilter, Name: f.Name, ID: f.UUID, Body: removeFilter{was: f}})
}
