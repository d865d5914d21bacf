package kubevip

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Names of interfaces as the kernel has them.
func TestNotAnInterface(t *testing.T) {
	for name, want := range map[string]bool{
		"eth0": true, "a": true, strings.Repeat("a", 15): true, "eth0.100": true, "ätsch": true,
		"": false, ".": false, "..": false, strings.Repeat("a", 16): false, "a/b": false, "a:1": false, "a b": false, "a\tb": false,
		"a\u007f": false, "a\u0085": false, "a\u00a0": false,
	} {
		if got := notAnInterface(name) == ""; got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}

// A Service may ask for the same in other words, and for nothing else.
func TestCompare(t *testing.T) {
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for _, test := range []struct {
		name   string
		w      requested
		others []netip.Addr
		same   bool
	}{
		{"the same", requested{addresses: []netip.Addr{one}}, []netip.Addr{one}, true},
		{"the same two", requested{addresses: []netip.Addr{one, two}}, []netip.Addr{two, one}, true},
		{"another", requested{addresses: []netip.Addr{one}}, []netip.Addr{two}, false},
		{"one more", requested{addresses: []netip.Addr{one, two}}, []netip.Addr{one}, false},
		{"one less", requested{addresses: []netip.Addr{one}}, []netip.Addr{one, two}, false},
		{"DHCP, too", requested{addresses: []netip.Addr{one}, dhcp: [2]bool{lb.IPv6: true}}, []netip.Addr{one}, false},
	} {
		if test.w.compare(test.others); (test.w.reason == nil) != test.same {
			t.Errorf("%s: %v", test.name, test.w.reason)
		}
	}
}

// Of a Service with one family only the first of those that are named counts.
func TestMatch(t *testing.T) {
	both := []lb.Family{lb.IPv4, lb.IPv6}
	for _, test := range []struct {
		name    string
		r       lb.Request
		address string
		fits    bool
	}{
		{"single, first of two", lb.Request{Families: both, Policy: lb.SingleStack}, "10.0.0.1", true},
		{"single, second of two", lb.Request{Families: both, Policy: lb.SingleStack}, "fd00::1", false},
		{"single, the one", lb.Request{Families: both[1:], Policy: lb.SingleStack}, "fd00::1", true},
		{"dual, second of two", lb.Request{Families: both, Policy: lb.PreferDualStack}, "fd00::1", true},
		{"dual, but one family", lb.Request{Families: both[:1], Policy: lb.PreferDualStack}, "fd00::1", false},
	} {
		w := requested{addresses: []netip.Addr{netip.MustParseAddr(test.address)}}
		if w.match(&test.r); (w.reason == nil) != test.fits {
			t.Errorf("%s: %v", test.name, w.reason)
		}
	}
}

// Of two requests that are wrong, the one is told that was read first, and the other after that
// has been corrected.
func TestFirstMistakeIsTold(t *testing.T) {
	first := lb.InvalidRequest.With("annotation fairlead.io/pool is empty")
	for _, test := range []struct{ address, want string }{
		{"10.0.0.1", "fairlead.io/pool is empty"},
		{"ten", "fairlead.io/pool is empty"},
	} {
		r := lb.Request{Families: []lb.Family{lb.IPv4}, Invalid: &first}
		(&Config{}).amend(&r, &lb.Service{Annotations: words{AnnotationAddresses: test.address}})
		if r.Invalid == nil || !strings.Contains(r.Invalid.Text, test.want) {
			t.Errorf("%s: %v", test.address, r.Invalid)
		}
	}
}

// What is noted of a Service that has addresses from DHCP servers. One that is to get
// others asks for none of them.
func TestNoteLeases(t *testing.T) {
	s := &lb.Service{Annotations: words{native.AnnotationDHCP: "IPv6"}, Ingress: []lb.Ingress{{IP: "10.0.0.1"}, {IP: "fd00::1"}, {IP: "fd00::2"}}}
	for _, reallocate := range []bool{false, true} {
		r := lb.Request{Reallocate: reallocate}
		noteLeases(&r, s)
		if r.DHCP != [2]bool{lb.IPv6: !reallocate} || fmt.Sprint(r.Leased) != "[fd00::1]" {
			t.Errorf("reallocate %t: %v, %v", reallocate, r.DHCP, r.Leased)
		}
	}
}

// As many as a list may have count, and what follows is for nobody.
func TestMostAddresses(t *testing.T) {
	var all []string
	for i := range most + 1 {
		all = append(all, fmt.Sprintf("10.0.0.%d", i+1))
	}
	if n := len(list(strings.Join(all, ","))); n != most {
		t.Errorf("%d of %d count", n, len(all))
	}
	for n, fits := range map[int]bool{most: true, most + 1: false} {
		w := requested{}
		if w.read(strings.Join(all[:n], ",")); (len(w.addresses) == n) != fits || (w.reason == nil) != fits {
			t.Errorf("%d: %d, %v", n, len(w.addresses), w.reason)
		}
	}
}

// An entry of a pool may have blanks, up to 100 characters. Of a longer one only the beginning is
// repeated, and that is all that is told about it.
func TestLongEntries(t *testing.T) {
	const from, to = "192.0.2.1", "192.0.2.9"
	entry := func(n int) string { return from + strings.Repeat(" ", n-len(from)-len(to)-1) + "-" + to }
	if v := readValue(entry(100), false); v.fault() != "" || len(v.spans) != 1 || lb.SpanString(v.spans[0]) != from+"-"+to {
		t.Errorf("100 characters: %v, %q", v.spans, v.fault())
	}
	for _, n := range []int{101, 100_000} {
		want := fmt.Sprintf("%s is neither a CIDR nor a range", prose.Quote(entry(n)))
		if v := readValue(entry(n), false); v.fault() != want {
			t.Errorf("%d characters: %q, want %q", n, v.fault(), want)
		}
	}
}

// A range that only begins among link-local addresses is not a link-local one.
func TestLinkLocalRange(t *testing.T) {
	for text, want := range map[string]bool{
		"169.254.1.1-169.254.1.9": true, "169.254.255.1-169.255.0.9": false, "169.253.255.1-169.254.0.9": false, "10.0.0.1-10.0.0.9": false,
	} {
		if got := readValue(text, false).local; got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// Problems are told in the order of their keys, and those of one key as they were found.
func TestProblemsInOrder(t *testing.T) {
	var c Config
	for _, key := range []string{"b", "c", "a", "b"} {
		c.tell(key, lb.NoPool.With(fmt.Sprint(len(c.Problems))))
	}
	c.sort()
	var got []string
	for _, p := range c.Problems {
		got = append(got, p.Key+p.Reason.Text[len(p.Reason.Text)-2:len(p.Reason.Text)-1])
	}
	if strings.Join(got, " ") != "a2 b0 b3 c1" {
		t.Errorf("%v", got)
	}
}
