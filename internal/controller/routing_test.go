package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

// A session counts for as long as its agent is believed: not that of an agent that is lost,
// nor of one that leaves. Reasons that nobody knows are not passed on.
func TestRoutingOf(t *testing.T) {
	agent := func(name string, change func(*v1alpha1.AgentStatus)) v1alpha1.Agent {
		a := v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.AgentStatus{
			Peers: []v1alpha1.Peer{{Name: "tor", State: sessionEstablished, Reason: string(lb.PeerReady)}}}}
		change(&a.Status)
		return a
	}
	list := []v1alpha1.Agent{
		agent("e", func(*v1alpha1.AgentStatus) {}),
		agent("d", func(s *v1alpha1.AgentStatus) {
			s.Peers[0] = v1alpha1.Peer{Name: "tor", State: "Idle", Reason: string(lb.PeerDown)}
			s.Refused = []v1alpha1.Refused{{Kind: "BGPPeer", Name: "locked", Reason: string(lb.PeerUnusable), Message: "No."}, {Kind: "BGPPeer", Name: "tor", Reason: "Invented"}}
		}),
		agent("c", func(s *v1alpha1.AgentStatus) {
			s.Conditions = []metav1.Condition{{Type: agentReady, Reason: string(lb.AgentLeaving)}}
		}),
		agent("b", func(s *v1alpha1.AgentStatus) {
			s.Refused = []v1alpha1.Refused{{Kind: "BGPPeer", Name: "locked", Reason: string(lb.PeerUnusable), Message: "Long ago."}}
		}),
		agent("a", func(s *v1alpha1.AgentStatus) {
			s.Peers = append(s.Peers, v1alpha1.Peer{Name: "spine", State: "Connect", Reason: string(lb.PeerReady)})
		}),
	}
	lost := map[string]lb.Reason{"b": lb.AgentLost.With("a"), "e": lb.AgentUnheard.With()}
	got := routingOf(list, lost, lb.Common)
	want := []Session{
		{"spine", "a", false, "Connect", lb.PeerReady},
		{"tor", "a", true, "", lb.PeerReady}, {"tor", "b", false, "its agent does not answer", lb.AgentLost}, {"tor", "d", false, "PeerDown", lb.PeerDown}, {"tor", "e", true, "", lb.PeerReady},
	}
	if diff := cmp.Diff(want, got.Sessions); diff != "" {
		t.Error(diff)
	}
	if len(got.Refused) != 1 || got.Refused[0].Node != "d" || got.Refused[0].Name != "locked" || !got.Refused[0].Reason.Warning() {
		t.Errorf("refused are %v", got.Refused)
	}
}

// An address counts as unheard if no node that announces it to routers has a session, and none
// announces it on a LAN.
func TestUnheardRoutes(t *testing.T) {
	agent := func(name, state string, addresses ...v1alpha1.Announcement) v1alpha1.Agent {
		return v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.AgentStatus{
			Peers: []v1alpha1.Peer{{Name: "tor", State: state}}, Addresses: addresses}}
	}
	routed, onLAN := v1alpha1.Announcement{Address: "192.0.2.7", Protocol: "BGP"}, v1alpha1.Announcement{Address: "192.0.2.7", Protocol: "ARP"}
	for name, c := range map[string]struct {
		agents []v1alpha1.Agent
		want   int
	}{
		"none":              {nil, 0},
		"heard":             {[]v1alpha1.Agent{agent("a", "Established", routed), agent("b", "Active", routed)}, 0},
		"no session":        {[]v1alpha1.Agent{agent("a", "Active", routed), agent("b", "Connect", routed)}, 1},
		"on a LAN as well":  {[]v1alpha1.Agent{agent("a", "Active", routed), agent("b", "Active", onLAN)}, 0},
		"another's session": {[]v1alpha1.Agent{agent("a", "Active", routed), agent("b", "Established")}, 1},
		"only lost ones":    {[]v1alpha1.Agent{agent("lost", "Established", routed), agent("b", "Active", routed)}, 1},
	} {
		if got := unheardRoutes(c.agents, map[string]lb.Reason{"lost": lb.AgentLost.With("b")}); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
