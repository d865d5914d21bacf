package bgp

import (
	"net/netip"
	"os"
	"regexp"
	"testing"

	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/router"
	"fairlead.io/test/kit/tree"
)

// A node connects to routers with the examples of the guide, and they use its routes.
func TestExamplesOfTheGuide(t *testing.T) {
	guide, err := os.ReadFile(tree.Path("docs/guides/bgp.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind, address string
		as            uint32
	}{{"frr", "10.99.0.1", 65001}, {"bird", "10.99.0.2", 65002}} {
		t.Run(c.kind, func(t *testing.T) {
			example := regexp.MustCompile("(?s)```" + c.kind + "\n(.*?)```").FindSubmatch(guide)
			if example == nil {
				t.Fatal("the guide has no example")
			}
			l := &lab{t: t, node: netns.New(t, "node"), router: netns.New(t, "router")}
			netns.Cable(
				netns.Plug{NS: l.router, Interface: "eth0", Addresses: []string{c.address + "/24", "2001:db8::1/64"}},
				netns.Plug{NS: l.node, Interface: "eth0", Addresses: []string{"10.99.0.11/24", "2001:db8::11/64"}},
			)
			if c.kind == "frr" {
				l.frr = router.StartFRR(t, l.router, string(example[1]), "bgpd", "bfdd")
			} else {
				l.bird = router.StartBIRD(t, l.router, string(example[1]))
			}
			p := quick()
			p.Address, p.PeerAS = netip.MustParseAddr(c.address), c.as
			a := l.speak(p, nil)
			a.Set("r1", table("203.0.113.0/24", "2001:db8:9::7/128"))
			a.synced()
			l.has("203.0.113.0/24", "via 10.99.0.11")
			l.has("2001:db8:9::7", "2001:db8::11")
		})
	}
}
