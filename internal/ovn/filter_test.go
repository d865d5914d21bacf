package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/northbound"
)

// filterName is that of web() in cluster c1.
const filterName = "fairlead_7ee84fb0239d203f7a42"

// only lets some networks connect.
func only(s *Service, networks ...string) {
	s.Restricted, s.Sources = true, nil
	for _, n := range networks {
		s.Sources = append(s.Sources, netip.MustParsePrefix(n))
	}
}

// filtered has the filter of a Service as it is to be.
func filtered(s *Service, seen *Seen) {
	f := &Filter{UUID: "f1", Name: s.FilterName("c1"), Ports: []string{"p1"}, ExternalIDs: s.filterIdentity("c1")}
	matches, _ := s.drops()
	for _, m := range matches {
		f.Rules = append(f.Rules, Rule{Direction: ruleDirection, Action: ruleAction, Priority: rulePriority, Match: m})
	}
	seen.Filters = append(seen.Filters, f)
}

// Rules drop what comes from anywhere else. A family without networks is closed.
func TestDrops(t *testing.T) {
	s := web()
	s.Listeners = []Listener{
		listener("tcp", "168.119.17.52:443"), listener("tcp", "168.119.17.52:80"), listener("udp", "168.119.17.52:53"), listener("tcp", "[2001:db8::52]:80"),
	}
	for _, c := range []struct {
		networks, want []string
	}{
		{[]string{"128.0.0.0/1", "64.0.0.0/2"}, []string{
			"ip4.dst == 168.119.17.52 && tcp.dst == {80, 443} && ip4.src == {0.0.0.0/2}",
			"ip4.dst == 168.119.17.52 && udp.dst == {53} && ip4.src == {0.0.0.0/2}",
			"ip6.dst == 2001:db8::52 && tcp.dst == {80} && ip6",
		}},
		{[]string{"0.0.0.0/0", "2000::/3"}, []string{
			"ip6.dst == 2001:db8::52 && tcp.dst == {80} && ip6.src == {::/3, 4000::/2, 8000::/1}",
		}},
	} {
		only(s, c.networks...)
		got, why := s.drops()
		if diff := cmp.Diff(c.want, got); diff != "" || why != "" {
			t.Errorf("%v: %s %s", c.networks, why, diff)
		}
	}
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("10.%d.0.1/32", i))
	}
	only(s, many...)
	if got, why := s.drops(); why == "" {
		t.Errorf("%d rules for 200 networks", len(got))
	}
}

// FuzzComplement: an address is in one of the networks, or in the complement.
func FuzzComplement(f *testing.F) {
	f.Add([]byte{192, 0, 2, 0, 24, 10, 0, 0, 0, 8}, uint32(0xc0000201))
	f.Add([]byte{0, 0, 0, 0, 0}, uint32(1))
	f.Fuzz(func(t *testing.T, data []byte, n uint32) {
		var allowed []netip.Prefix
		for len(data) >= 5 {
			allowed = append(allowed, netip.PrefixFrom(netip.AddrFrom4([4]byte(data)), int(data[4])%33))
			data = data[5:]
		}
		a := netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		contains := func(p netip.Prefix) bool { return p.Contains(a) }
		if in, out := slices.ContainsFunc(allowed, contains), slices.ContainsFunc(complement(lb.IPv4, allowed), contains); in == out {
			t.Errorf("%v: allowed %v, dropped %v", a, in, out)
		}
	})
}

// rules are those of the Service's port group, as ovn-nbctl prints them.
func rules(s *northbound.Server) string {
	out := s.Ctl("acl-list", filterName)
	return strings.Join(strings.Fields(out), " ")
}

// Sources are filtered in the same transaction, and what others change of the filter
// heals. What others have stays.
func TestFilterHeals(t *testing.T) {
	s := newProject(t)
	s.Ctl("pg-add", "theirs", "ext-public-shalb-dev", "--", "acl-add", "theirs", "to-lport", "1001", "ip4", "allow-related")
	s.Ctl("acl-add", "ext-public", "from-lport", "1001", "ip4", "allow")
	others := func() string { return s.Ctl("acl-list", "theirs") + s.Ctl("acl-list", "ext-public") }
	before := others()
	w := web()
	only(w, "128.0.0.0/1")
	w.Strict = true
	transactions := s.Transactions()
	k := keep(t, "c1", []string{s.Endpoint()}, w)
	k.settled("created")
	if n := s.Transactions() - transactions; n != 1 {
		t.Errorf("%d transactions, want 1", n)
	}
	const want = "to-lport 32767 (ip4.dst == 168.119.17.52 && tcp.dst == {2379} && ip4.src == {0.0.0.0/1}) drop"
	if got := rules(s); got != want {
		t.Errorf("rules %s", got)
	}
	rule := func() string {
		return strings.TrimSpace(s.Ctl("--bare", "--columns=acls", "find", "Port_Group", "name="+filterName))
	}
	for what, do := range map[string]func(){
		"port group deleted": func() { s.Ctl("pg-del", filterName) },
		"rules removed":      func() { s.Ctl("clear", "Port_Group", filterName, "acls") },
		"rule added":         func() { s.Ctl("acl-add", filterName, "to-lport", "1", "ip4", "allow") },
		"rule allows":        func() { s.Ctl("set", "ACL", rule(), "action=allow") },
		"rule's way changed": func() { s.Ctl("set", "ACL", rule(), "direction=from-lport") },
		"rule's match":       func() { s.Ctl("set", "ACL", rule(), "match=ip6") },
		"rule's priority":    func() { s.Ctl("set", "ACL", rule(), "priority=1") },
		"rule's identity":    func() { s.Ctl("clear", "ACL", rule(), "external_ids") },
		"ports removed":      func() { s.Ctl("clear", "Port_Group", filterName, "ports") },
		"port added": func() {
			s.Ctl("lsp-add", "shalb-dev-default", "p", "--", "pg-set-ports", filterName, "p", "ext-public-shalb-dev")
		},
		"renamed":          func() { s.Ctl("set", "Port_Group", filterName, "name=other") },
		"identity removed": func() { s.Ctl("clear", "Port_Group", filterName, "external_ids") },
		"kept no more":     func() { s.Ctl("remove", "Port_Group", filterName, "external_ids", "np") },
		"switch's port again": func() {
			s.Ctl("lsp-del", "ext-public-shalb-dev")
			outside(s, "shalb-dev")
			s.Ctl("pg-set-ports", "theirs", "ext-public-shalb-dev")
		},
		"duplicate": func() {
			s.Ctl("create", "Port_Group", "name=twin", "external_ids:vendor=fairlead", "external_ids:fairlead.io/cluster=c1", "external_ids:fairlead.io/service=shalb-dev/etcd-lb")
		},
	} {
		k.healed(what, do)
		if got := rules(s); got != want {
			t.Errorf("%s: rules %s", what, got)
		}
		peer := s.Ctl("--bare", "--columns=_uuid", "find", "Logical_Switch_Port", "name=ext-public-shalb-dev")
		if ports := s.Ctl("--bare", "--columns=ports", "find", "Port_Group", "name="+filterName); ports != peer {
			t.Errorf("%s: ports %s, want %s", what, ports, peer)
		}
		if n := len(strings.Fields(s.Ctl("--bare", "--columns=_uuid", "find", "Port_Group", "external_ids:vendor=fairlead"))); n != 1 {
			t.Errorf("%s: %d port groups", what, n)
		}
	}
	gone := Service{Namespace: w.Namespace, Name: w.Name, UID: w.UID}
	k.want(&gone)
	k.settled("deleted")
	if out := s.Ctl("--bare", "--columns=name", "list", "Port_Group"); strings.TrimSpace(out) != "theirs" {
		t.Errorf("port groups %s", out)
	}
	if out := s.Ctl("find", "ACL", "external_ids:vendor=fairlead"); strings.TrimSpace(out) != "" {
		t.Errorf("rules left:\n%s", out)
	}
	if after := others(); after != before {
		t.Errorf("others' rules were\n%s\nand are\n%s", before, after)
	}
}

// Where sources cannot be filtered, nothing is written for who insists; for others the
// filter is written as far as that is possible. It heals.
func TestUnfilteredIsRefused(t *testing.T) {
	s := newProject(t)
	s.Ctl("lrp-add", "shalb-dev", "transit", "02:00:00:00:00:09", "203.0.113.1/24", "peer=elsewhere", "--", "lrp-set-gateway-chassis", "transit", "ch1")
	w := web()
	only(w, "192.0.2.0/24")
	w.Strict = true
	transactions := s.Transactions()
	k := keep(t, "c1", []string{s.Endpoint()}, w)
	k.eventually("it is refused", func() bool { v := k.view(w); return v != nil && v.Refused && v.Unfiltered != "" })
	if n := s.Transactions() - transactions; n != 0 {
		t.Errorf("%d transactions, want none", n)
	}
	lenient := *w
	lenient.Strict = false
	k.want(&lenient)
	k.settled("written all the same")
	if v := k.view(w); v.Unfiltered == "" || !strings.Contains(rules(s), "drop") {
		t.Errorf("%+v, rules %s", v, rules(s))
	}
	strict := *w
	k.want(&strict)
	k.eventually("it is refused again", func() bool { return k.view(w).Refused })
	k.healed("the port is gone", func() { s.Ctl("lrp-del", "transit") })
	if v := k.view(w); v.Refused || v.Unfiltered != "" {
		t.Errorf("%+v", v)
	}
}
