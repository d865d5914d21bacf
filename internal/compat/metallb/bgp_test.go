package metallb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// readBGP reads objects, in the namespace metallb-system if they name none.
func readBGP(t testing.TB, text string) *BGP {
	t.Helper()
	b := &BGP{Namespace: "metallb-system", Secrets: map[string]Secret{}}
	for document := range strings.SplitSeq(text, "---\n") {
		var o unstructured.Unstructured
		decode(t, document, &o.Object)
		if o.GetNamespace() == "" {
			o.SetNamespace(b.Namespace)
		}
		switch o.GetKind() {
		case KindPeer:
			b.Peers = append(b.Peers, o)
		case KindBGPAdvertisement:
			b.Advertisements = append(b.Advertisements, o)
		case KindProfile:
			b.Profiles = append(b.Profiles, o)
		case KindCommunity:
			b.Communities = append(b.Communities, o)
		case KindPool:
			var p metallb.IPAddressPool
			decode(t, document, &p)
			p.Namespace = o.GetNamespace()
			b.Pools = append(b.Pools, p)
		case "Node":
			b.Nodes = append(b.Nodes, labels.Set(o.GetLabels()))
		case "Secret":
			var s corev1.Secret
			decode(t, document, &s)
			data := map[string][]byte{}
			for key, value := range s.StringData {
				data[key] = []byte(value)
			}
			b.Secrets[o.GetName()] = Secret{string(s.Type), data}
		}
	}
	return b
}

// bgpInAnyOrder checks that the order of objects changes nothing.
func bgpInAnyOrder(t *testing.T, b *BGP) {
	t.Helper()
	show := func(r Routing) string { return showPeers(r.Peers) + showRoutes(r.Routes) + showProblems(r.Problems) }
	want := show(b.Translate())
	shuffled := *b
	for range 20 {
		shuffled.Peers, shuffled.Advertisements = shuffle(b.Peers), shuffle(b.Advertisements)
		shuffled.Profiles, shuffled.Communities = shuffle(b.Profiles), shuffle(b.Communities)
		shuffled.Pools, shuffled.Nodes = shuffle(b.Pools), shuffle(b.Nodes)
		if got := show(shuffled.Translate()); got != want {
			t.Fatalf("another order of the objects changes what they say (-want +got):\n%s", gocmp.Diff(want, got))
		}
	}
}

func showPeers(peers []lb.Peer) string {
	var out strings.Builder
	for _, p := range peers {
		to := p.Interface
		if p.Address.IsValid() {
			to = p.Address.String()
		}
		fmt.Fprintf(&out, "%s: AS %d to %s port %d AS %s, hold %s, keepalive %s", p.Name, p.LocalAS, to, p.Port, []string{fmt.Sprint(p.PeerAS), "internal", "external"}[p.ASRule], p.Hold, p.Keepalive)
		for _, fact := range []struct {
			is   bool
			text string
		}{
			{p.ConnectTime != 0, "connect " + p.ConnectTime.String()}, {p.Source.IsValid(), "from " + p.Source.String()}, {p.RouterID.IsValid(), "router ID " + p.RouterID.String()},
			{p.VRF != "", "VRF " + p.VRF}, {p.Password != "", "password " + p.Password}, {p.Multihop, "multihop"}, {p.DualStack, "both families"}, {p.GracefulRestart, "graceful restart"},
			{p.MaxPrefixes != 0, fmt.Sprintf("at most %d prefixes", p.MaxPrefixes)},
			{p.NodeSelectors != nil, "on nodes with " + showSelectors(p.NodeSelectors)},
		} {
			if fact.is {
				out.WriteString(", " + fact.text)
			}
		}
		if b := p.BFD; b != nil {
			fmt.Fprintf(&out, ", BFD %s/%s x %d TTL %d", b.Transmit, b.Receive, b.Multiplier, b.MinTTL)
			if b.Passive {
				out.WriteString(" passive")
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

func showRoutes(routes map[string][]lb.Route) string {
	var out strings.Builder
	for _, pool := range slices.Sorted(maps.Keys(routes)) {
		fmt.Fprintf(&out, "%s:\n", pool)
		for _, r := range routes[pool] {
			fmt.Fprintf(&out, "  %s: /%d and /%d", r.Name, r.Aggregation[lb.IPv4], r.Aggregation[lb.IPv6])
			for _, fact := range []struct {
				is   bool
				text string
			}{
				{r.Peers != nil, "to " + strings.Join(r.Peers, ", ")}, {r.LocalPref != 0, fmt.Sprintf("local preference %d", r.LocalPref)},
				{r.Communities != nil, fmt.Sprintf("communities %v", r.Communities)},
				{r.NodeSelectors != nil, "by nodes with " + showSelectors(r.NodeSelectors)}, {r.ServiceSelectors != nil, "for Services with " + showSelectors(r.ServiceSelectors)},
			} {
				if fact.is {
					out.WriteString(", " + fact.text)
				}
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

// A session keeps the values of a profile that is deleted or broken, as long as its peer
// names it.
func TestProfileGone(t *testing.T) {
	const peer = "kind: BGPPeer\nmetadata: {name: p}\nspec: {myASN: 1, peerASN: 2, peerAddress: 192.0.2.1, bfdProfile: fast}\n"
	const profile = "---\nkind: BFDProfile\nmetadata: {name: fast}\nspec: {detectMultiplier: %s}\n"
	var former Former
	for _, step := range []struct {
		objects    string
		multiplier uint8
		told       lb.Code
	}{
		{peer, 0, BFDProfileMissing},
		{peer + fmt.Sprintf(profile, "4"), 4, ""},
		{peer, 4, BFDProfileGone},
		{peer + fmt.Sprintf(profile, "1"), 4, BFDProfileGone},
		{peer + fmt.Sprintf(profile, "5"), 5, ""},
		{strings.Replace(peer, ", bfdProfile: fast", "", 1), 0, ""},
		{peer, 0, BFDProfileMissing},
	} {
		b := readBGP(t, step.objects)
		b.Former = former
		r := b.Translate()
		former = r.Former
		var multiplier uint8
		if bfd := r.Peers[0].BFD; bfd != nil {
			multiplier = bfd.Multiplier
		}
		var told lb.Code
		for _, p := range r.Problems {
			if p.Kind == KindPeer {
				told = p.Reason.Code
			}
		}
		if multiplier != step.multiplier || told != step.told {
			t.Errorf("%s: multiplier %d, told %s; want %d, %s", step.objects, multiplier, told, step.multiplier, step.told)
		}
	}
}

// A peer whose Secret was not read yet waits: an earlier agent may have left its session.
func TestPeerWaitsForItsSecret(t *testing.T) {
	const objects = "kind: BGPPeer\nmetadata: {name: p}\nspec: {myASN: 1, peerASN: 2, peerAddress: 192.0.2.1, passwordSecret: {name: s}, bfdProfile: none}\n"
	b := readBGP(t, objects)
	b.SecretsUnread = "they were not read yet"
	r := b.Translate()
	if len(r.Peers) != 1 || !strings.Contains(r.Peers[0].Waiting, "they were not read yet") {
		t.Errorf("peers are %+v", r.Peers)
	}
	if len(r.Problems) != 1 || r.Problems[0].Reason.Code != PeerInvalid || !strings.Contains(r.Problems[0].Reason.Text, "they were not read yet") {
		t.Errorf("told is %v", r.Problems)
	}
	b = readBGP(t, objects) // the Secret does not exist
	if r := b.Translate(); len(r.Peers) > 0 {
		t.Errorf("peers without a Secret are %+v", r.Peers)
	}
}

// A password is in no text, whatever is wrong with it.
func TestPasswordsAreNotTold(t *testing.T) {
	const secret = "0penSesame"
	for name, spec := range map[string]string{
		"too long":  "{myASN: 1, peerASN: 2, peerAddress: 192.0.2.1, password: " + strings.Repeat(secret, 9) + "}",
		"both":      "{myASN: 1, peerASN: 2, peerAddress: 192.0.2.1, password: " + secret + ", passwordSecret: {name: s}}",
		"no type":   "{myASN: 1, peerASN: 2, peerAddress: 192.0.2.1, passwordSecret: {name: s}}",
		"no string": "{myASN: 1, peerASN: 2, peerAddress: 192.0.2.1, password: [" + secret + "]}",
	} {
		b := readBGP(t, "kind: BGPPeer\nmetadata: {name: p}\nspec: "+spec+"\n")
		b.Secrets["s"] = Secret{Data: map[string][]byte{"password": []byte(secret)}}
		r := b.Translate()
		if len(r.Peers) != 0 || len(r.Problems) != 1 || strings.Contains(r.Problems[0].Reason.Text, secret) {
			t.Errorf("%s: %v %v", name, r.Peers, r.Problems)
		}
	}
}

// FuzzBGP: whatever the objects say, nothing panics, the order does not matter, each refused
// object is reported, what is used can be used, and good objects beside them work.
func FuzzBGP(f *testing.F) {
	f.Add("{myASN: 64500, peerASN: 64501, peerAddress: 192.0.2.1, holdTime: 90s, bfdProfile: p}", "{aggregationLength: 24, communities: ['1:2', x]}", "{receiveInterval: 50}", "{communities: [{name: x, value: '1:2'}]}")
	f.Add("{myASN: 1, dynamicASN: external, interface: eth0, keepaliveTime: 1s, nodeSelectors: [{matchLabels: {a: b}}]}", "{peers: [p], localPref: 7, serviceSelectors: [{}]}", "{minimumTtl: 0}", "{communities: [{name: good, value: 'large:1:2:3'}]}")
	f.Add("{myASN: -1, peerPort: 70000}", "{aggregationLengthV6: 300}", "[]", "7")
	f.Fuzz(func(t *testing.T, peer, ad, profile, community string) {
		b := readBGP(t, goodBGP)
		for _, o := range []struct {
			into *[]unstructured.Unstructured
			kind string
			spec string
		}{{&b.Peers, KindPeer, peer}, {&b.Advertisements, KindBGPAdvertisement, ad}, {&b.Profiles, KindProfile, profile}, {&b.Communities, KindCommunity, community}} {
			var spec any
			if yaml.Unmarshal([]byte(o.spec), &spec) != nil {
				return
			}
			*o.into = append(*o.into, unstructured.Unstructured{Object: map[string]any{"kind": o.kind, "spec": spec,
				"metadata": map[string]any{"name": "p", "namespace": b.Namespace, "creationTimestamp": "2026-01-02T00:00:00Z"}}})
		}
		bgpInAnyOrder(t, b)
		r := b.Translate()
		told := map[string]bool{}
		for _, p := range r.Problems {
			key := p.Kind + " " + p.Object.Name
			if told[key] {
				t.Errorf("%s is told of twice", key)
			}
			told[key] = true
			if strings.Contains(p.Reason.Text, "%!") {
				t.Errorf("says %s", p.Reason.Text)
			}
		}
		names := map[string]bool{}
		for _, p := range r.Peers {
			names[p.Name] = true
			if p.LocalAS == 0 || p.Address.IsValid() == (p.Interface != "") || p.Port == 0 || p.Keepalive > p.Hold || p.Hold < 0 || len(p.Password) > maxPassword {
				t.Errorf("%+v", p)
			}
			if b := p.BFD; b != nil && (b.Transmit <= 0 || b.Receive <= 0 || b.Multiplier < 2 || b.MinTTL == 0) {
				t.Errorf("%+v", b)
			}
		}
		if !names["good"] || len(r.Peers) == 1 && !told["BGPPeer p"] {
			t.Errorf("peers %v, told %v", names, told)
		}
		if routes := r.Routes["good"]; len(routes) == 0 || routes[0].Name != "good" || len(routes[0].Communities) != 1 {
			t.Errorf("routes %+v", routes)
		}
	})
}

const goodBGP = `kind: BGPPeer
metadata: {name: good, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {myASN: 64500, peerASN: 64501, peerAddress: 198.51.100.1}
---
kind: Community
metadata: {name: good, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {communities: [{name: good, value: "64500:1"}]}
---
kind: BGPAdvertisement
metadata: {name: good, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {communities: [good]}
---
kind: IPAddressPool
metadata: {name: good}
spec: {addresses: [192.0.2.0/24]}
`

// Peers of v1beta1 are read where there are no others: a version that came later is read
// beside the one that stood in for it, and has the same objects.
func TestOldPeersStandIn(t *testing.T) {
	old, now := metallb.GroupVersion.WithKind(KindPeer), peerKind
	peer := func(version, name string) compat.Object {
		o := &unstructured.Unstructured{}
		decode(t, `{apiVersion: metallb.io/`+version+`, kind: BGPPeer, metadata: {namespace: metallb-system, name: `+name+`}, spec: {myASN: 1, peerASN: 2, peerAddress: 192.0.2.1, holdTime: 0s}}`, &o.Object)
		return o
	}
	d := Dialect{Namespace: "metallb-system"}
	for name, c := range map[string]struct {
		all  map[schema.GroupVersionKind][]compat.Object
		want string
	}{
		"old":  {map[schema.GroupVersionKind][]compat.Object{old: {peer("v1beta1", "tor")}}, "metallb.io/v1beta1"},
		"new":  {map[schema.GroupVersionKind][]compat.Object{now: {peer("v1beta2", "tor")}}, "metallb.io/v1beta2"},
		"both": {map[schema.GroupVersionKind][]compat.Object{old: {peer("v1beta1", "tor")}, now: {peer("v1beta2", "tor")}}, "metallb.io/v1beta2"},
	} {
		r, ok := d.Read(compat.Objects{All: c.all}).(*Reading)
		if !ok || len(r.Objects.BGP.Peers) != 1 || r.Objects.BGP.Peers[0].GetAPIVersion() != c.want {
			t.Errorf("%s: %v", name, r.Objects.BGP.Peers)
		}
	}
}
