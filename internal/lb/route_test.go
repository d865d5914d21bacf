package lb

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

func TestParseCommunity(t *testing.T) {
	for text, want := range map[string]string{
		"0:0": "0:0", "65535:65535": "65535:65535", "64500:007": "64500:7", "large:4294967295:0:1": "large:4294967295:0:1",
		"": "", "1": "", "1:2:3": "", "1:65536": "", "65536:1": "", "-1:1": "", "a:b": "", "large:1:2": "", "large:1:2:4294967296": "", "Large:1:2:3": "", "no-export": "", "1: 2": "",
	} {
		got, err := ParseCommunity(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q is %v, %v; want %q", text, got, err, want)
		}
	}
}

// FuzzParseCommunity: what is read is written the same way again, and nothing else is read.
func FuzzParseCommunity(f *testing.F) {
	f.Add("64500:7")
	f.Add("large:1:2:3")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCommunity(text)
		if err != nil {
			return
		}
		if again, err := ParseCommunity(c.String()); err != nil || again != c {
			t.Errorf("%q is %v, which is %v, %v", text, c, again, err)
		}
	})
}

// aRoute is one of that age in days; facts change it.
func aRoute(name string, age int, facts ...func(*Route)) Route {
	r := Route{Name: name, Created: time.Unix(1_700_000_000, 0).AddDate(0, 0, -age), Aggregation: [...]int{IPv4: 32, IPv6: 128}}
	for _, f := range facts {
		f(&r)
	}
	return r
}

func pref(n uint32) func(*Route)      { return func(r *Route) { r.LocalPref = n } }
func to(peers ...string) func(*Route) { return func(r *Route) { r.Peers = peers } }
func aggregated(four, six int) func(*Route) {
	return func(r *Route) { r.Aggregation = [...]int{four, six} }
}
func onNodes(s string) func(*Route) {
	return func(r *Route) { r.NodeSelectors = []labels.Selector{parsed(s)} }
}
func ofServices(s string) func(*Route) {
	return func(r *Route) { r.ServiceSelectors = []labels.Selector{parsed(s)} }
}
func marked(words ...string) func(*Route) {
	return func(r *Route) {
		for _, w := range words {
			c, err := ParseCommunity(w)
			if err != nil {
				panic(err)
			}
			r.Communities = append(r.Communities, c)
		}
	}
}

func parsed(s string) labels.Selector {
	out, err := labels.Parse(s)
	if err != nil {
		panic(err)
	}
	return out
}

func TestPaths(t *testing.T) {
	many := func(from, n int) []string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("%d:%d", from, i))
		}
		return out
	}
	for name, c := range map[string]struct {
		address string
		routes  []Route
		want    string // paths, then codes of reasons with the route they name
	}{
		"nothing":           {"192.0.2.7", nil, ""},
		"to all":            {"192.0.2.7", []Route{aRoute("r", 1)}, "a 192.0.2.7/32; b 192.0.2.7/32"},
		"IPv6":              {"2001:db8::7", []Route{aRoute("r", 1, to("b"))}, "b 2001:db8::7/128"},
		"unknown peer":      {"192.0.2.7", []Route{aRoute("r", 1, to("b", "z"))}, "b 192.0.2.7/32"},
		"aggregate":         {"192.0.2.7", []Route{aRoute("r", 1, to("a"), aggregated(24, 64))}, "a 192.0.2.0/24"},
		"IPv6 aggregate":    {"2001:db8::7", []Route{aRoute("r", 1, to("a"), aggregated(24, 64))}, "a 2001:db8::/64"},
		"both lengths":      {"192.0.2.7", []Route{aRoute("r", 1, to("a"), pref(5)), aRoute("s", 2, to("a"), aggregated(24, 64), pref(6))}, "a 192.0.2.0/24 pref 6; a 192.0.2.7/32 pref 5"},
		"other node":        {"192.0.2.7", []Route{aRoute("r", 1, onNodes("rack=b"))}, ""},
		"this node":         {"192.0.2.7", []Route{aRoute("r", 1, to("a"), onNodes("rack=a"))}, "a 192.0.2.7/32"},
		"other Services":    {"192.0.2.7", []Route{aRoute("r", 1, ofServices("tier=gold"))}, ""},
		"this Service":      {"192.0.2.7", []Route{aRoute("r", 1, to("a"), ofServices("tier=tin"))}, "a 192.0.2.7/32"},
		"no Service":        {"192.0.2.7", []Route{aRoute("r", 1)}, ""},
		"shared":            {"192.0.2.7", []Route{aRoute("r", 1, to("a"), ofServices("tier=gold"), marked("1:1")), aRoute("s", 1, to("a"), ofServices("tier=tin"), marked("2:2"))}, "a 192.0.2.7/32 [1:1 2:2]"},
		"shared, conflict":  {"192.0.2.7", []Route{aRoute("r", 1, to("a"), ofServices("tier=gold"), pref(1)), aRoute("s", 2, to("a"), ofServices("tier=tin"), pref(2))}, `a 192.0.2.7/32 pref 2; AdvertisementConflict "r"`},
		"communities unite": {"192.0.2.7", []Route{aRoute("r", 1, to("a"), marked("large:1:2:3", "2:2")), aRoute("s", 2, to("a"), marked("1:9", "2:2"))}, "a 192.0.2.7/32 [1:9 2:2 large:1:2:3]"},
		"others for others": {"192.0.2.7", []Route{aRoute("r", 1, to("a"), marked("1:1")), aRoute("s", 2, to("b"), marked("2:2"))}, "a 192.0.2.7/32 [1:1]; b 192.0.2.7/32 [2:2]"},
		"the older counts":  {"192.0.2.7", []Route{aRoute("young", 1, to("a"), pref(5), marked("1:1")), aRoute("old", 2, to("a"), pref(6))}, `a 192.0.2.7/32 pref 6; AdvertisementConflict "young"`},
		"of one age":        {"192.0.2.7", []Route{aRoute("y", 1, to("a"), pref(5)), aRoute("x", 1, to("a"), pref(6))}, `a 192.0.2.7/32 pref 6; AdvertisementConflict "y"`},
		"refused at one":    {"192.0.2.7", []Route{aRoute("young", 1, pref(5)), aRoute("old", 2, to("a"), pref(6))}, `a 192.0.2.7/32 pref 6; b 192.0.2.7/32 pref 5; AdvertisementConflict "young"`},
		"too many":          {"192.0.2.7", []Route{aRoute("young", 1, to("a"), marked("9:9")), aRoute("old", 2, to("a"), marked(many(1, MaxCommunities)...))}, `a 192.0.2.7/32 [63]; TooManyCommunities "young"`},
	} {
		t.Run(name, func(t *testing.T) {
			services := []labels.Set{{"tier": "tin"}}
			if strings.HasPrefix(name, "shared") {
				services = append(services, labels.Set{"tier": "gold"})
			}
			if name == "no Service" {
				services = nil
			}
			paths, refused := Paths(netip.MustParseAddr(c.address), services, labels.Set{"rack": "a"}, c.routes, []string{"b", "a"})
			var got []string
			for _, p := range paths {
				text := p.Peer + " " + p.Prefix.String()
				if p.LocalPref != 0 {
					text += fmt.Sprintf(" pref %d", p.LocalPref)
				}
				switch n := len(p.Communities); {
				case n > 10:
					text += fmt.Sprintf(" [%d]", n)
				case n > 0:
					text += fmt.Sprintf(" %v", p.Communities)
				}
				got = append(got, text)
			}
			for _, r := range refused {
				got = append(got, fmt.Sprintf("%s %q", r.Reason.Code, r.Route))
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

func TestContradicts(t *testing.T) {
	nodes := []labels.Set{{"rack": "a"}, {"rack": "b"}}
	both := [...]bool{IPv4: true, IPv6: true}
	for name, c := range map[string]struct {
		r, s     Route
		nodes    []labels.Set
		families [len(Families)]bool
		want     bool
	}{
		"the same":                 {aRoute("r", 1), aRoute("s", 1), nodes, both, false},
		"other preference":         {aRoute("r", 1, pref(1)), aRoute("s", 1), nodes, both, true},
		"other peers":              {aRoute("r", 1, pref(1), to("a")), aRoute("s", 1, to("b")), nodes, both, false},
		"a peer and all":           {aRoute("r", 1, pref(1), to("a")), aRoute("s", 1), nodes, both, true},
		"a common peer":            {aRoute("r", 1, pref(1), to("a", "b")), aRoute("s", 1, to("b", "c")), nodes, both, true},
		"other nodes":              {aRoute("r", 1, pref(1), onNodes("rack=a")), aRoute("s", 1, onNodes("rack=b")), nodes, both, false},
		"other nodes, none known":  {aRoute("r", 1, pref(1), onNodes("rack=a")), aRoute("s", 1, onNodes("rack=b")), nil, both, true},
		"for Services":             {aRoute("r", 1, pref(1), ofServices("x=y")), aRoute("s", 1), nodes, both, false},
		"other lengths":            {aRoute("r", 1, pref(1), aggregated(24, 64)), aRoute("s", 1), nodes, both, false},
		"one other length":         {aRoute("r", 1, pref(1), aggregated(24, 128)), aRoute("s", 1), nodes, both, true},
		"one length, other family": {aRoute("r", 1, pref(1), aggregated(24, 128)), aRoute("s", 1), nodes, [...]bool{IPv4: true, IPv6: false}, false},
	} {
		if got := c.r.Contradicts(&c.s, c.nodes, c.families); got != c.want || c.s.Contradicts(&c.r, c.nodes, c.families) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
