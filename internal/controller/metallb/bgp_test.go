package metallb

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/lb"
)

// A peer says how many nodes have a session, and of the others why not, in the router's words;
// nodes with the same trouble are named together.
func TestPeerReason(t *testing.T) {
	up := func(node string) controller.Session {
		return controller.Session{Peer: "tor", Node: node, Established: true}
	}
	down := func(node, why string) controller.Session {
		return controller.Session{Peer: "tor", Node: node, Trouble: why}
	}
	limited := controller.Session{Peer: "tor", Node: "c", Established: true, Trouble: "Prefixes are not announced."}
	var many []controller.Session
	for i := range 1000 {
		many = append(many, down(fmt.Sprintf("node%03d", i), "connection refused"))
	}
	for name, c := range map[string]struct {
		all  []controller.Session
		code string
		want string
	}{
		"nobody":        {nil, "PeerUnused", "No node has reported"},
		"another peer":  {[]controller.Session{{Peer: "other", Node: "a", Established: true}}, "PeerUnused", "No node has reported"},
		"all":           {[]controller.Session{up("a"), up("b")}, "SessionsEstablished", "2 of 2 nodes have a session with the router."},
		"one":           {[]controller.Session{up("a")}, "SessionsEstablished", "1 of 1 nodes has a session with the router."},
		"some":          {[]controller.Session{up("a"), down("b", "bad peer AS (2/2)"), down("c", "bad peer AS (2/2)"), down("d", "silent")}, "SessionsMissing", "1 of 4 nodes have a session with the router. b and c: bad peer AS (2/2); d: silent."},
		"not as wanted": {[]controller.Session{up("a"), limited}, "SessionsImpaired", "2 of 2 nodes have a session with the router. c: Prefixes are not announced."},
		"many":          {many, "SessionsMissing", "0 of 1000 nodes have a session with the router. node000, node001"},
	} {
		r := PeerReason("tor", c.all)
		if string(r.Code) != c.code || !strings.HasPrefix(r.Text, c.want) || len(r.Text) > 500 {
			t.Errorf("%s: %s", name, r)
		}
		if r.Ready() != (r.Code == metallb.SessionsEstablished) {
			t.Errorf("%s: ready is %t", name, r.Ready())
		}
	}
}

// Agents know whether nodes go on as before, although an object is refused.
func TestAgentsKnowMore(t *testing.T) {
	invalid := metallb.Reasons.With(metallb.PeerInvalid, "missing local ASN")
	kept := invalid.And(metallb.Reasons.With(metallb.PeerKept))
	gone, unknown := metallb.Reasons.With(metallb.CommunityGone, `"gold"`), metallb.Reasons.With(metallb.CommunityUnknown, `"gold"`)
	for name, c := range map[string]struct{ own, agent, want lb.Reason }{
		"it goes on":           {invalid, kept, kept},
		"it never was":         {invalid, invalid, invalid},
		"another thing":        {invalid, metallb.Reasons.With(metallb.PeerDuplicate, "tor"), invalid},
		"nothing is wrong":     {metallb.Reasons.With(metallb.AdvertisementReady, "no pool"), kept, kept},
		"a name that was":      {unknown, gone, gone},
		"a name that is there": {gone, unknown, gone},
	} {
		o := unstructured.Unstructured{Object: map[string]any{"kind": metallb.KindPeer, "metadata": map[string]any{"name": "tor", "uid": "1"}}}
		got := addRefused([]metallb.Problem{{Kind: metallb.KindPeer, UID: "1", Reason: c.own}}, &metallb.BGP{Peers: []unstructured.Unstructured{o}},
			[]controller.RefusedObject{{Kind: metallb.KindPeer, Name: "tor", Reason: c.agent}})
		if len(got) != 1 || got[0].Reason != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
