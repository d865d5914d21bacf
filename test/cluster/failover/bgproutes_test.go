package failover

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
)

// birdConfig takes sessions of all nodes, in their own AS.
const birdConfig = `
router id 10.77.0.252;
protocol device { }
protocol kernel k4 { ipv4 { export all; }; merge paths on; }
protocol kernel k6 { ipv6 { export all; }; merge paths on; }
protocol bgp nodes {
  local 10.77.0.252 as 65010;
  neighbor range 10.77.0.0/24 as 65010;
  direct;
  graceful restart on;
  error wait time 1, 2; error forget time 3;
  ipv4 { import all; export none; gateway direct; };
  ipv6 { import all; export none; gateway direct; };
}
`

// shows waits until FRR says all of these about a prefix, and none of those after a "!".
func (r *routers) shows(prefix netip.Prefix, words ...string) {
	r.t.Helper()
	family := "ipv4"
	if prefix.Addr().Is6() {
		family = "ipv6"
	}
	eventually(r.t, func() error {
		return saysAll(r.frr.Show("show bgp "+family+" unicast "+prefix.String()), words...)
	})
}

func saysAll(text string, words ...string) error {
	for _, word := range words {
		absent, not := strings.CutPrefix(word, "!")
		if strings.Contains(text, absent) == not {
			return fmt.Errorf("%q in %s", word, text)
		}
	}
	return nil
}

// peerOf is what an agent says about a peer.
func peerOf(t *testing.T, node, peer string) (v1alpha1.Peer, error) {
	var agent v1alpha1.Agent
	if err := api.Get(t.Context(), types.NamespacedName{Name: node}, &agent); err != nil {
		return v1alpha1.Peer{}, err
	}
	for _, p := range agent.Status.Peers {
		if p.Name == peer {
			return p, nil
		}
	}
	return v1alpha1.Peer{}, fmt.Errorf("%s reports the peers %+v", node, agent.Status.Peers)
}

func awaitPeer(t *testing.T, node, peer, reason, text string) {
	t.Helper()
	eventually(t, func() error {
		p, err := peerOf(t, node, peer)
		if err == nil && (p.Reason != reason || !strings.Contains(p.Message, text)) {
			err = fmt.Errorf("%s says about %s: %+v", node, peer, p)
		}
		return err
	})
}

// What advertisements, communities and annotations make of routes; to which routers; and what
// is wrong with objects stops no others.
func TestBGPRoutes(t *testing.T) {
	r, s, addrs := bgpWorld(t)
	r.addBIRD(birdConfig)
	p := hostPrefix(addrs[0])
	change := func(o client.Object, body string) {
		t.Helper()
		if err := api.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			t.Fatal(err)
		}
	}

	// Communities of two advertisements are united; a name that is defined later counts then.
	bgpObject(t, "BGPAdvertisement", "edge", `{ipAddressPools: [edge], communities: ["65001:7"], localPref: 200}`)
	bgpObject(t, "BGPAdvertisement", "more", `{ipAddressPools: [edge], communities: ["large:65001:1:2", gold], localPref: 200}`)
	awaitCondition(t, "BGPAdvertisement", "more", "CommunityUnknown", `"gold"`)
	r.shows(p, "65001:7", "65001:1:2", "!65001:9", "!localpref 200")
	bgpObject(t, "Community", "names", `{communities: [{name: gold, value: "65001:9"}]}`)
	r.shows(p, "65001:7", "65001:1:2", "65001:9")
	// A name that is gone keeps its value. An advertisement that becomes unusable changes nothing.
	bgpObject(t, "Community", "names", `{communities: [{name: tin, value: "65001:8"}]}`)
	awaitCondition(t, "BGPAdvertisement", "more", "CommunityGone", `"gold"`)
	bgpObject(t, "BGPAdvertisement", "more", `{ipAddressPools: [edge], communities: ["1:99999"]}`)
	awaitCondition(t, "BGPAdvertisement", "more", "AdvertisementInvalid", "Routes go on")
	r.shows(p, "65001:7", "65001:1:2", "65001:9")
	bgpObject(t, "Community", "names", `{communities: [{name: gold, value: "65001:9"}]}`)

	// To BIRD, which is in the nodes' AS, with another preference, and not to FRR.
	bgpObject(t, "BGPPeer", "bird", `{myASN: 65010, peerASN: 65010, peerAddress: 10.77.0.252, dualStackAddressFamily: true, enableGracefulRestart: true}`)
	bgpObject(t, "BGPAdvertisement", "edge", `{ipAddressPools: [edge], peers: [tor]}`)
	bgpObject(t, "BGPAdvertisement", "more", `{ipAddressPools: [edge], peers: [bird], localPref: 321, communities: ["65010:3"]}`)
	for _, a := range addrs {
		r.awaitNextHops(r.birds, hostPrefix(a), nodes...)
	}
	eventually(t, func() error {
		return saysAll(r.bird.Show("show route all for "+addrs[0].String()), "BGP.local_pref: 321", "(65010,3)")
	})
	r.shows(p, "!65010:3", "!65001:7")

	// Another preference for the same prefix and peer: the older counts.
	bgpObject(t, "BGPAdvertisement", "younger", `{ipAddressPools: [edge], peers: [bird], localPref: 99}`)
	awaitObjectEvent(t, "younger", "AdvertisementConflict", "is older")
	if err := saysAll(r.bird.Show("show route all for "+addrs[0].String()), "BGP.local_pref: 321"); err != nil {
		t.Error(err)
	}

	// Annotations of the Service.
	change(s, `{"metadata":{"annotations":{"fairlead.io/bgp-communities":"65001:77,gold,nobody","fairlead.io/bgp-local-pref":"55"}}}`)
	r.shows(p, "65001:77", "65001:9")
	eventually(t, func() error {
		return saysAll(r.bird.Show("show route all for "+addrs[0].String()), "BGP.local_pref: 55")
	})
	awaitEvent(t, "web", "metallb-speaker", "BGPAnnotationInvalid", `no Community object defines "nobody"`)
	change(s, `{"metadata":{"annotations":{"fairlead.io/bgp-communities":null,"fairlead.io/bgp-local-pref":null,"fairlead.io/bgp-drain":"true"}}}`)
	eventually(t, func() error {
		return saysAll(r.bird.Show("show route all for "+addrs[0].String()), "(65535,0)", "BGP.local_pref: 0")
	})
	change(s, `{"metadata":{"annotations":{"fairlead.io/bgp-drain":null}}}`)

	// Objects that cannot be used change nothing for others.
	unchanged := r.steady(p)
	bgpObject(t, "BGPPeer", "hold", `{myASN: 65010, peerASN: 65001, peerAddress: 10.77.0.9, holdTime: 1s}`)
	awaitObjectEvent(t, "hold", "PeerInvalid", "invalid hold time")
	bgpObject(t, "BGPPeer", "nobody", `{myASN: 65010, peerASN: 65001, peerAddress: 10.77.0.251, peerPort: 1179}`)
	awaitPeer(t, "node1", "nobody", "PeerDown", "refuses connections")
	bgpObject(t, "BGPPeer", "stranger", `{myASN: 65010, peerASN: 64999, peerAddress: 10.77.0.252, sourceAddress: 10.77.0.200}`)
	eventually(t, func() error {
		got, err := peerOf(t, "node1", "stranger")
		if err == nil && got.Reason == "PeerReady" {
			err = fmt.Errorf("%+v", got)
		}
		return err
	})
	bgpObject(t, "BFDProfile", "never", `{detectMultiplier: 1}`)
	awaitObjectEvent(t, "never", "BFDProfileInvalid", "detectMultiplier")
	bgpObject(t, "BGPAdvertisement", "wide", `{ipAddressPools: [edge], aggregationLength: 8}`)
	awaitObjectEvent(t, "wide", "AggregateTooWide", "aggregation length 8")
	bgpObject(t, "Community", "broken", `{communities: [{name: silver, value: "65001:9:9:9:9"}]}`)
	awaitObjectEvent(t, "broken", "CommunityInvalid", "invalid community value")
	eventually(t, func() error {
		var state metallb.ConfigurationState
		err := api.Get(t.Context(), types.NamespacedName{Namespace: metallbNamespace, Name: "controller"}, &state)
		if err == nil {
			err = saysAll(state.Status.ErrorSummary, "hold", "never", "wide", "broken")
		}
		return err
	})
	unchanged()

	// What MetalLB's users look at.
	eventually(t, func() error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("metallb.io/v1beta1")
		list.SetKind("ServiceBGPStatusList")
		if err := api.List(t.Context(), list, client.InNamespace(metallbNamespace)); err != nil {
			return err
		}
		var said []string
		for i := range list.Items {
			said = append(said, fmt.Sprint(list.Items[i].Object["status"]))
		}
		if len(said) != len(nodes) {
			return fmt.Errorf("ServiceBGPStatus objects: %q", said)
		}
		return saysAll(strings.Join(said, " "), "node1", "node2", "node3", "peers:[bird tor]")
	})
	eventually(t, func() error {
		out, err := running["node1"].get(t.Context(), running["node1"].metrics, "/metrics")
		if err != nil {
			return err
		}
		return saysAll(out, `metallb_bgp_session_up{peer="10.77.0.251:179",vrf=""} 1`, `metallb_bgp_announced_prefixes_total{peer="10.77.0.251:179",vrf=""} 2`,
			`fairlead_bgp_session_up{peer="tor"} 1`, `metallb_speaker_announced{ip="`+addrs[0].String()+`",node="node1",protocol="bgp",service="default/web"} 1`)
	})
}

// Passwords from a Secret that comes later and changes; and a peer that takes few prefixes.
func TestBGPPasswordsAndLimits(t *testing.T) {
	r, _, addrs := bgpWorld(t)
	p := hostPrefix(addrs[0])
	// The Secret is missing: the session goes on as it was.
	unchanged := r.steady(p)
	bgpObject(t, "BGPPeer", "tor", strings.Replace(tor, "{", "{passwordSecret: {name: tor}, ", 1))
	awaitCondition(t, "BGPPeer", "tor", "PeerInvalid", "The session goes on")
	unchanged()
	r.frr.Configure("router bgp 65001", "neighbor nodes password hunter21")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metallbNamespace, Name: "tor"}, Type: corev1.SecretTypeBasicAuth,
		StringData: map[string]string{"username": "", "password": "hunter21"}}
	create(t, secret)
	r.leadsTo(p, nodes...)
	awaitCondition(t, "BGPPeer", "tor", "SessionsEstablished", "3 of 3")

	// One that is deleted, or a peer that is changed by mistake, ends no session.
	began := sessionsOf("node1")
	unchanged = r.steady(p)
	if err := api.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	awaitCondition(t, "BGPPeer", "tor", "PeerInvalid", "does not exist. Correct it. The session goes on")
	bgpObject(t, "BGPPeer", "tor", strings.Replace(strings.Replace(tor, "holdTime: 9s", "holdTime: 2s", 1), "{", "{passwordSecret: {name: tor}, ", 1))
	awaitCondition(t, "BGPPeer", "tor", "PeerInvalid", "invalid hold time")
	bgpObject(t, "BGPPeer", "tor", strings.Replace(tor, "{", "{passwordSecret: {name: tor}, ", 1))
	secret.ResourceVersion, secret.UID = "", ""
	secret.StringData = map[string]string{"username": "", "password": "hunter21"}
	create(t, secret)
	awaitCondition(t, "BGPPeer", "tor", "SessionsEstablished", "3 of 3")
	unchanged()
	if now := sessionsOf("node1"); now != began {
		t.Errorf("the agent of node1 has begun %d sessions, and %d before", now, began)
	}
	// Another one, which FRR does not have, and back. (FRR keeps the keys of nodes that it has
	// met, so that it is not the one to change.)
	rotate := func(password string) {
		t.Helper()
		secret.StringData = map[string]string{"password": password}
		if err := api.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	rotate("hunter22")
	awaitPeer(t, "node1", "tor", "PeerDown", "A wrong password (TCP-MD5) looks the same")
	rotate("hunter21")
	r.leadsTo(p, nodes...)
	if now := sessionsOf("node1"); now != began+1 {
		t.Errorf("the agent of node1 has begun %d sessions since its password is right again", now-began)
	}
	if log := running["node1"].log.String(); strings.Contains(log, "hunter2") {
		t.Errorf("a password is in the log:\n%s", log)
	}

	o := &unstructured.Unstructured{}
	o.SetAPIVersion("metallb.io/v1beta2")
	o.SetKind("BGPPeer")
	o.SetNamespace(metallbNamespace)
	o.SetName("tor")
	if err := api.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"fairlead.io/max-prefixes":"1"}}}`))); err != nil {
		t.Fatal(err)
	}
	newService(t, "another", dualStackOfMetalLB)
	awaitPeer(t, "node1", "tor", "PeerFull", "the first of 2 is 198.51.100.1/32")
	r.leadsTo(p, nodes...)
}

// sessionsOf is how many sessions the agent of a node has begun.
func sessionsOf(node string) int {
	return strings.Count(running[node].log.String(), "BGP session established")
}

// awaitCondition waits until the condition of one of MetalLB's objects has a reason and a text.
func awaitCondition(t *testing.T, kind, name, reason, text string) {
	t.Helper()
	o := bgpKind(kind, name)
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["reason"] == reason && strings.Contains(fmt.Sprint(c["message"]), text) {
				return nil
			}
		}
		return fmt.Errorf("%s %s does not say %s %q: %v", kind, name, reason, text, conditions)
	})
}

// awaitObjectEvent waits for an event on one of MetalLB's objects.
func awaitObjectEvent(t *testing.T, object, reason, text string) {
	t.Helper()
	eventually(t, func() error {
		var list corev1.EventList
		if err := api.List(t.Context(), &list, client.InNamespace(metallbNamespace)); err != nil {
			return err
		}
		var said []string
		for _, e := range list.Items {
			if e.InvolvedObject.Name != object {
				continue
			}
			if e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
			said = append(said, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("no event %s %q on %s, but %q", reason, text, object, said)
	})
}
