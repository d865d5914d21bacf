package link

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSince(t *testing.T) {
	for release, want := range map[string]bool{
		"6.18.44-fc": true, "5.18.0": true, "5.17.9": false, "5.15.0-91-generic": false, "4.19": false, "6.1-rc3": true,
		"10.0": true, "odd": true,
	} {
		if got := since(release, 5, 18); got != want {
			t.Errorf("%s: %v", release, got)
		}
	}
}

func TestShapeOfOurs(t *testing.T) {
	for _, a := range []string{"192.0.2.1", "2001:db8::1"} {
		ours := fresh(netip.MustParseAddr(a))
		if !ours.shapedLikeOurs() || !ours.ours() {
			t.Errorf("%+v is not recognised", ours)
		}
		for what, change := range map[string]func(*address){
			"for ever":     func(a *address) { a.valid = ^uint32(0) },
			"preferred":    func(a *address) { a.preferred = 5 },
			"with a route": func(a *address) { a.flags &^= unix.IFA_F_NOPREFIXROUTE },
			"of a network": func(a *address) { a.prefix = netip.PrefixFrom(a.prefix.Addr(), 24) },
			"link scope":   func(a *address) { a.scope = unix.RT_SCOPE_LINK },
		} {
			other := ours
			change(&other)
			if other.shapedLikeOurs() {
				t.Errorf("%s %s is taken for ours", a, what)
			}
		}
	}
}
