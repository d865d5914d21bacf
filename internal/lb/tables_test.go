package lb

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// What is not a warning is what went as it should. Everything else is one, so that it can
// be found among the events of a namespace.
func TestWhichReasonsAreWhat(t *testing.T) {
	for what, test := range map[string]struct {
		is   func(About) bool
		want string
	}{
		"not a warning": {func(a About) bool { return !a.Warning },
			"AddressReleased AgentLeaving AgentReady Announced ChangesPlanned CloudBusy DeletedLoadBalancer DeletingLoadBalancer EnsuredLoadBalancer EnsuringLoadBalancer " +
				"Moved PeerReady PoolDisabled PoolReady Ready Routed SingleFamily UpdatedLoadBalancer WaitingForLease"},
		"of a condition that is True": {func(a About) bool { return a.Ready },
			"AddressContested AddressOwned AgentReady Announced ChangeRefused ChangesPlanned DriftRepaired EnsuredLoadBalancer Moved NodesSkipped OutOfPool OutsidePools " +
				"PeerReady PoolReady Ready Routed SingleFamily UnknownAnnotation UpdatedLoadBalancer"},
		"never the condition about addresses": {func(a About) bool { return a.Event },
			"AddressConflict AddressRefused AddressReleased AggregateLocal Announced AnnouncerLost BGPAnnotationInvalid ChangesPlanned DeleteLoadBalancerFailed DeletedLoadBalancer " +
				"DeletingLoadBalancer DriftRepaired EnsuringLoadBalancer LeaseLost LeaseNotAsked LeaseRefused LeaseUnusable LoadBalancerOrphaned Moved NoAgent NoLeaseServer " +
				"NoServingEndpoint NoValidNodes NodesSkipped NotAnnounced OffSubnet Routed UnAvailableLoadBalancer UnknownAnnotation UpdatedLoadBalancer"},
	} {
		var got []string
		for _, code := range slices.Sorted(maps.Keys(Common)) {
			if test.is(Common[code]) {
				got = append(got, string(code))
			}
		}
		if diff := cmp.Diff(strings.Fields(test.want), got); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", what, diff)
		}
	}
}

// Of two peers that differ in one of these, both are sessions of their own.
func TestSameSession(t *testing.T) {
	base := Peer{Address: netip.MustParseAddr("192.0.2.1"), Interface: "eth0", Port: 179, Source: netip.MustParseAddr("192.0.2.9"), SourceInterface: "eth1", VRF: "red"}
	same := base
	same.Name, same.Password, same.PeerAS, same.Multihop = "another", "secret", 64512, true
	if !base.SameSession(&same) || !same.SameSession(&base) {
		t.Error("name, password and AS do not make another session")
	}
	for what, change := range map[string]func(*Peer){
		"address":          func(p *Peer) { p.Address = netip.MustParseAddr("192.0.2.2") },
		"interface":        func(p *Peer) { p.Interface = "eth9" },
		"port":             func(p *Peer) { p.Port = 1179 },
		"source":           func(p *Peer) { p.Source = netip.Addr{} },
		"source interface": func(p *Peer) { p.SourceInterface = "" },
		"VRF":              func(p *Peer) { p.VRF = "blue" },
	} {
		other := base
		change(&other)
		if base.SameSession(&other) || other.SameSession(&base) {
			t.Errorf("another %s is not another session", what)
		}
	}
}

// Below 50 ms, a short pause of a busy machine looks like a dead router.
func TestBFDTooFast(t *testing.T) {
	const least = 50 * time.Millisecond
	for _, test := range []struct {
		transmit, receive time.Duration
		want              bool
	}{
		{least, least, false},
		{time.Second, least, false},
		{least - 1, time.Second, true},
		{time.Second, least - 1, true},
	} {
		if got := (&BFD{Transmit: test.transmit, Receive: test.receive}).DetectsTooFast(); got != test.want {
			t.Errorf("%s and %s: %t", test.transmit, test.receive, got)
		}
	}
}

func TestRouteRequestEqual(t *testing.T) {
	base := RouteRequest{Communities: []Community{{}}, Aliases: []string{"a"}, LocalPref: 100, HasLocalPref: true, Drain: true, Wrong: "x"}
	same := base
	if !base.Equal(&same) {
		t.Error("not equal to itself")
	}
	for what, change := range map[string]func(*RouteRequest){
		"communities":      func(r *RouteRequest) { r.Communities = nil },
		"aliases":          func(r *RouteRequest) { r.Aliases = nil },
		"preference":       func(r *RouteRequest) { r.LocalPref = 200 },
		"whether it has a": func(r *RouteRequest) { r.HasLocalPref = false },
		"drain":            func(r *RouteRequest) { r.Drain = false },
		"what is wrong":    func(r *RouteRequest) { r.Wrong = "" },
	} {
		other := base
		change(&other)
		if base.Equal(&other) {
			t.Errorf("%s: equal", what)
		}
	}
}

func community(t *testing.T, text string) Community {
	t.Helper()
	c, err := ParseCommunity(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Names of communities become what Community objects say; one that none defines is told.
func TestResolveRouteRequest(t *testing.T) {
	known := map[string]Community{"blue": community(t, "64512:7")}
	r := RouteRequest{Communities: []Community{community(t, "64512:1")}, Aliases: []string{"blue"}}
	got := r.Resolve(known)
	if diff := cmp.Diff([]Community{community(t, "64512:1"), community(t, "64512:7")}, got.Communities); diff != "" || got.Aliases != nil || got.Wrong != "" {
		t.Errorf("%s, aliases %v, wrong %q", diff, got.Aliases, got.Wrong)
	}
	r = RouteRequest{Aliases: []string{"red", "blue", "green"}, Wrong: "so"}
	got = r.Resolve(known)
	if want := `so; no Community object defines "red"; no Community object defines "green"`; got.Wrong != want || len(got.Communities) != 1 {
		t.Errorf("%q and %v", got.Wrong, got.Communities)
	}
	if got = (RouteRequest{Aliases: []string{"red"}}).Resolve(known); got.Wrong != `no Community object defines "red"` {
		t.Errorf("%q", got.Wrong)
	}
}

// What a Service asks for about its route changes its own route, and no aggregate: others
// are behind that, too.
func TestAmendPath(t *testing.T) {
	single, aggregate := netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("192.0.2.0/24")
	asks := &RouteRequest{LocalPref: 200, HasLocalPref: true, Communities: []Community{community(t, "64512:1")}}
	p := Path{Prefix: single, Attributes: Attributes{LocalPref: 100}}
	if wrong := p.Amend(asks); wrong != "" || p.LocalPref != 200 || len(p.Communities) != 1 {
		t.Errorf("%q: %+v", wrong, p)
	}
	p = Path{Prefix: aggregate, Attributes: Attributes{LocalPref: 100}}
	if wrong := p.Amend(asks); wrong != "" || p.LocalPref != 100 || len(p.Communities) != 0 {
		t.Errorf("an aggregate: %q: %+v", wrong, p)
	}
	p = Path{Prefix: single, Attributes: Attributes{LocalPref: 100}}
	if wrong := p.Amend(&RouteRequest{}); wrong != "" || p.LocalPref != 100 {
		t.Errorf("nothing asked: %q: %+v", wrong, p)
	}
	many := &RouteRequest{}
	for i := range MaxCommunities {
		many.Communities = append(many.Communities, community(t, fmt.Sprintf("64512:%d", i)))
	}
	p = Path{Prefix: single, Attributes: Attributes{Communities: []Community{community(t, "64000:1")}}}
	if wrong := p.Amend(many); !strings.Contains(wrong, "would have") || len(p.Communities) != 1 {
		t.Errorf("too many: %q: %d", wrong, len(p.Communities))
	}
}

func TestOlderRoute(t *testing.T) {
	now := time.Unix(1000, 0)
	a, b, c := &Route{Name: "b", Created: now}, &Route{Name: "c", Created: now}, &Route{Name: "a", Created: now.Add(time.Second)}
	for _, pair := range [][2]*Route{{a, b}, {b, c}, {a, c}} {
		if !pair[0].Older(pair[1]) || pair[1].Older(pair[0]) {
			t.Errorf("%s and %s", pair[0].Name, pair[1].Name)
		}
	}
	if a.Older(a) {
		t.Error("older than itself")
	}
}

// A Service shares an address of a family if it says with whom, unless it has to be alone.
func TestShares(t *testing.T) {
	six := IPv6
	for _, test := range []struct {
		name      string
		r         Request
		four, six bool
	}{
		{"no key", Request{}, false, false},
		{"a key", Request{ShareKey: "k"}, true, true},
		{"a key, but alone", Request{ShareKey: "k", Alone: true}, false, false},
		{"a key for one family", Request{ShareKey: "k", ShareOnly: &six}, false, true},
		{"one family, and no key", Request{ShareOnly: &six}, false, false},
	} {
		if four, six := test.r.Shares(IPv4), test.r.Shares(IPv6); four != test.four || six != test.six {
			t.Errorf("%s: IPv4 %t, IPv6 %t", test.name, four, six)
		}
	}
}

func TestAdvertisedOn(t *testing.T) {
	if got := AdvertisedOn(""); len(got) != 1 || got[0].Interfaces != nil {
		t.Errorf("any interface: %v", got)
	}
	if got := AdvertisedOn("eth1"); len(got) != 1 || !slices.Equal(got[0].Interfaces, []string{"eth1"}) {
		t.Errorf("eth1: %v", got)
	}
}

func TestLinkLocals(t *testing.T) {
	if diff := cmp.Diff("169.254.0.0/16 fe80::/10", strings.Join(texts(LinkLocals()), " ")); diff != "" {
		t.Error(diff)
	}
}

func texts(in []netip.Prefix) (out []string) {
	for _, p := range in {
		out = append(out, p.String())
	}
	slices.Sort(out)
	return out
}

// A pool is for no Service of a namespace that it excepts, whatever else it says.
func TestPoolExceptsNamespaces(t *testing.T) {
	p := Pool{Except: sets.New("shop")}
	for namespace, want := range map[string]bool{"shop": false, "other": true} {
		if got := p.Admits(&Request{Service: types.NamespacedName{Namespace: namespace}}); got != want {
			t.Errorf("%s: %t", namespace, got)
		}
	}
}

// Of what remains after one is removed, everything stays.
func TestByAgeKeepsOthers(t *testing.T) {
	a, b := &Request{UID: "a"}, &Request{UID: "b"}
	m := ByAge[string, *Request]{}
	m.Add("x", a)
	m.Add("x", b)
	m.Remove("x", a)
	if got := m["x"]; len(got) != 1 || got[0] != b {
		t.Errorf("%v", got)
	}
}

// One part that is wrong makes all of it wrong: somebody else has written it.
func TestCarriersOfOthers(t *testing.T) {
	for _, text := range []string{"192.0.2.7", "x: a", "fe80::1%eth0: a", "::ffff:192.0.2.7: a", "192.0.2.7: a; 192.0.2.7: b", "192.0.2.7: ", "192.0.2.8: a; 192.0.2.7: a, "} {
		if got := ParseCarriers(text); len(got) != 0 {
			t.Errorf("%q is %v", text, got)
		}
	}
	if got := (Carriers{netip.MustParseAddr("192.0.2.7"): nil}).String(); got != "" {
		t.Errorf("nobody carries it: %q", got)
	}
}

func TestRefusedSteps(t *testing.T) {
	p := Plan{Steps: []Step{{Verb: VerbRefuse, Name: "a"}, {Name: "b"}, {Verb: VerbRefuse, Name: "c"}}}
	if got := p.Refused(); len(got) != 2 || got[0].Name != "a" || got[1].Name != "c" {
		t.Errorf("%v", got)
	}
}

// Only steps on named objects, and not on the whole of one, are told in one line.
func TestStepsAlike(t *testing.T) {
	base := Step{Name: "a", Kind: "pool", Part: "members"}
	for _, test := range []struct {
		name string
		s, o Step
		want bool
	}{
		{"two of a kind", base, Step{Name: "b", Kind: "pool", Part: "members"}, true},
		{"the first without a name", Step{Kind: "pool", Part: "members"}, base, false},
		{"the second without a name", base, Step{Kind: "pool", Part: "members"}, false},
		{"the first is its own part", Step{Name: "members", Kind: "pool", Part: "members"}, base, false},
		{"the second is its own part", base, Step{Name: "members", Kind: "pool", Part: "members"}, false},
	} {
		if got := test.s.alike(test.o); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

// Our condition has to say what the status has; without it nobody attests anything.
func TestAttestedBySomebody(t *testing.T) {
	s := &Service{}
	if s.Attested() {
		t.Error("attested without a condition")
	}
	s.Ingress = []Ingress{{IP: "192.0.2.7"}, {IP: "192.0.2.7"}, {IP: "x"}, {IP: "192.0.2.8"}}
	if got := s.Published(); len(got) != 2 {
		t.Errorf("published %v", got)
	}
	s.Says = &Condition{Reason: Reason{Text: keeps + "192.0.2.7 and 192.0.2.8."}}
	if !s.Attested() {
		t.Error("the condition begins with what the Service keeps")
	}
}

func TestMarks(t *testing.T) {
	var m Marks
	m.Annotate("a", "1")
	m.Annotate("b", "2")
	m.Label("c", "3")
	m.Label("d", "4")
	if diff := cmp.Diff(Marks{Annotations: map[string]string{"a": "1", "b": "2"}, Labels: map[string]string{"c": "3", "d": "4"}}, m); diff != "" {
		t.Error(diff)
	}
}

// What was made for a Service is an orphan only if no Service has its UID, nor one of the
// names that it may have had.
func TestOrphanLives(t *testing.T) {
	name := func(s string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: s} }
	o := Orphan{Service: name("web"), UID: "1", Names: []types.NamespacedName{name("api")}}
	for _, test := range []struct {
		name string
		o    Orphan
		is   types.NamespacedName
		uid  types.UID
		want bool
	}{
		{"itself", o, name("web"), "1", true},
		{"one of its names", o, name("api"), "", true},
		{"nobody", o, name("other"), "2", false},
	} {
		exists := func(n types.NamespacedName, uid types.UID) bool { return n == test.is && uid == test.uid }
		if got := test.o.Lives(exists); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}
