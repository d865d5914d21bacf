package metallb

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
)

// told returns what is told about the objects of a kind, as one text.
func told(r *Routing, kind string) string {
	var out []string
	for _, p := range r.Problems {
		if p.Kind == kind && p.Reason.Warning() {
			out = append(out, p.Reason.String())
		}
	}
	return strings.Join(out, "\n")
}

// Values at the limits of what a peer may have.
func TestPeerLimits(t *testing.T) {
	for _, test := range []struct{ spec, wrong string }{
		{"peerPort: 65535", ""},
		{"peerPort: 65536", "peerPort: 65536"},
		{"peerPort: -1", "peerPort: -1"},
		{"connectTime: 1s", ""},
		{"connectTime: 999ms", "connectTime: 999ms"},
		{"connectTime: 0s", "connectTime: 0s"},
		{"connectTime: 65535s", ""},
		{"connectTime: 65536s", "connectTime"},
		{"connectTime: 1500ms", "connectTime: 1.5s"},
		{"holdTime: 65535s", ""},
		{"holdTime: 65536s", "invalid hold time"},
		{"holdTime: 3s", ""},
		{"holdTime: 2s", "invalid hold time"},
		{"holdTime: 0s", ""},
		{"holdTime: -3s", "invalid hold time"},
		{"holdTime: 3500ms", "invalid hold time"},
		{"keepaliveTime: 21845s", ""},
		{"keepaliveTime: 21846s", "invalid hold time"},
		{"keepaliveTime: 65535s", "invalid hold time"},
		{"keepaliveTime: 65536s", "invalid keepaliveTime"},
		{"keepaliveTime: -1s", "invalid keepaliveTime"},
		{"holdTime: 9s, keepaliveTime: 9s", ""},
		{"holdTime: 9s, keepaliveTime: 10s", "invalid keepaliveTime"},
		{"password: " + strings.Repeat("x", maxPassword), ""},
		{"password: " + strings.Repeat("x", maxPassword+1), "the kernel takes 80"},
		{"sourceAddress: 224.0.0.1", "sourceAddress: \"224.0.0.1\" is not the IP address of a host"},
		{"sourceAddress: 0.0.0.0", "sourceAddress"},
		{"sourceAddress: nowhere", "sourceAddress"},
		{"ebgpMultiHop: true", ""},
		{"ebgpMultiHop: true, peerASN: 1", "this is not eBGP"},
		{"ebgpMultiHop: true, peerASN: 0, dynamicASN: external", ""},
		{"ebgpMultiHop: true, peerASN: 0, dynamicASN: internal", "this is not eBGP"},
	} {
		b := readBGP(t, "kind: BGPPeer\nmetadata: {name: p}\nspec: {"+peerWith(test.spec)+"}\n")
		got := told(new(b.Translate()), KindPeer)
		if test.wrong == "" && got != "" || !strings.Contains(got, test.wrong) {
			t.Errorf("%s: told %q, want %q", test.spec, got, test.wrong)
		}
	}
	for text, fits := range map[string]bool{"1": true, "0": false, "x": false, "-1": false, "2147483647": true, "2147483648": false} {
		b := readBGP(t, "kind: BGPPeer\nmetadata: {name: p, annotations: {"+AnnotationMaxPrefixes+": \""+text+"\"}}\nspec: {"+peerWith("")+"}\n")
		if got := told(new(b.Translate()), KindPeer); (got == "") != fits {
			t.Errorf("%s prefixes: %q", text, got)
		}
	}
}

// peerWith is a spec that is fine, with further fields in front of it that count.
func peerWith(fields string) string {
	out := []string{"myASN: 1", "peerAddress: 192.0.2.1"}
	if !strings.Contains(fields, "peerASN") {
		out = append(out, "peerASN: 2")
	}
	if fields != "" {
		out = append(out, fields)
	}
	return strings.Join(out, ", ")
}

// Where a Secret is named, it has the password; where Secrets are not read, nothing is known.
func TestPasswordSecrets(t *testing.T) {
	secret := func(kind, value string) map[string]Secret {
		return map[string]Secret{"s": {Type: SecretType, Data: map[string][]byte{kind: []byte(value)}}}
	}
	for _, test := range []struct {
		name     string
		spec     metallb.BGPPeerSpec
		secrets  map[string]Secret
		password string
		wrong    string
	}{
		{"not read", metallb.BGPPeerSpec{}, nil, "", ""},
		{"not read, and a password", metallb.BGPPeerSpec{Password: "p"}, nil, "", "can not have both"},
		{"read", metallb.BGPPeerSpec{}, secret(SecretKey, "v"), "v", ""},
		{"empty", metallb.BGPPeerSpec{}, secret(SecretKey, ""), "", "has no key"},
		{"another key", metallb.BGPPeerSpec{}, secret("other", "v"), "", "has no key"},
		{"not there", metallb.BGPPeerSpec{}, map[string]Secret{}, "", "does not exist"},
	} {
		var wrong faults
		test.spec.PasswordSecret.Name = "s"
		got, unread := wrong.password(&test.spec, &BGP{Secrets: test.secrets})
		if text := strings.Join(append(wrong, unread), "; "); got != test.password || test.wrong == "" && strings.Trim(text, "; ") != "" || !strings.Contains(text, test.wrong) {
			t.Errorf("%s: %q, %s", test.name, got, text)
		}
	}
}

// Two peers are one session only where a node has both. While no node is known, those count
// that select all nodes, or the same.
func TestPeersOnOneNode(t *testing.T) {
	selects := func(text string) (out []labels.Selector) {
		if text != "" {
			s, err := labels.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
		return out
	}
	nodes := []labels.Set{{"a": "1"}, {"b": "1"}}
	for _, test := range []struct {
		p, q           string
		unknown, known bool
	}{
		{"", "", true, true},
		{"a=1", "", true, true},
		{"", "a=1", true, true},
		{"a=1", "a=1", true, true},
		{"a=1", "b=1", false, false},
		{"a=1", "a!=2", false, true},
	} {
		p, q := &lb.Peer{NodeSelectors: selects(test.p)}, &lb.Peer{NodeSelectors: selects(test.q)}
		if got := (&BGP{}).shareNode(p, q); got != test.unknown {
			t.Errorf("%q and %q: %t", test.p, test.q, got)
		}
		if got := (&BGP{Nodes: nodes}).shareNode(p, q); got != test.known {
			t.Errorf("%q and %q, nodes known: %t", test.p, test.q, got)
		}
	}
	// The younger of two is refused, be the older the first that there is.
	const peer = "kind: BGPPeer\nmetadata: {name: %s}\nspec: {myASN: 1, peerASN: 2, peerAddress: %s}\n"
	b := readBGP(t, fmt.Sprintf(peer, "a", "192.0.2.1")+"---\n"+fmt.Sprintf(peer, "b", "192.0.2.1")+"---\n"+fmt.Sprintf(peer, "c", "192.0.2.2"))
	if r := b.Translate(); len(r.Peers) != 2 || !strings.Contains(told(&r, KindPeer), string(PeerDuplicate)) {
		t.Errorf("%d peers: %s", len(r.Peers), told(&r, KindPeer))
	}
}

// Values at the limits of profiles, aggregates and weights.
func TestOtherLimits(t *testing.T) {
	for spec, fits := range map[string]bool{
		"detectMultiplier: 2": true, "detectMultiplier: 1": false, "detectMultiplier: 255": true, "detectMultiplier: 256": false,
		"receiveInterval: 10": true, "receiveInterval: 9": false, "receiveInterval: 60000": true, "receiveInterval: 60001": false,
		"minimumTtl: 1": true, "minimumTtl: 0": false, "minimumTtl: 254": true, "minimumTtl: 255": false,
	} {
		r := readBGP(t, "kind: BFDProfile\nmetadata: {name: p}\nspec: {"+spec+"}\n").Translate()
		if got := told(&r, KindProfile); strings.Contains(got, "is not between") == fits {
			t.Errorf("%s: %q", spec, got)
		}
	}
	for spec, fits := range map[string]bool{
		"aggregationLength: 1": true, "aggregationLength: 0": false, "aggregationLength: 32": true, "aggregationLength: 33": false,
		"aggregationLengthV6: 128": true, "aggregationLengthV6: 129": false,
	} {
		r := readBGP(t, "kind: BGPAdvertisement\nmetadata: {name: a}\nspec: {"+spec+"}\n").Translate()
		if got := told(&r, KindBGPAdvertisement); strings.Contains(got, "invalid aggregation length") == fits {
			t.Errorf("%s: %q", spec, got)
		}
	}
	for weight, fits := range map[int32]bool{0: false, 1: true, 100: true, 101: false} {
		ad := advertisementOf(&metallb.L2Advertisement{Spec: metallb.L2AdvertisementSpec{PreferredNodeSelectors: []metallb.PreferredNode{{Weight: weight}}}})
		if (ad.invalid == nil) != fits {
			t.Errorf("weight %d: %v", weight, ad.invalid)
		}
	}
}

// Addresses of a pool that is gone are announced as before: by what names the pool, what is for
// all pools, and what selected it, if its labels are known.
func TestOrphans(t *testing.T) {
	const meta = "metadata: {name: %s}\nspec: {%s}\n"
	var text []string
	for name, spec := range map[string]string{
		"all": "", "named": "ipAddressPools: [gone]", "other": "ipAddressPools: [there]",
		"selects": "ipAddressPoolSelectors: [{matchLabels: {a: b}}]", "selects-without": "ipAddressPoolSelectors: [{matchExpressions: [{key: a, operator: DoesNotExist}]}]",
	} {
		text = append(text, fmt.Sprintf("kind: BGPAdvertisement\n"+meta, name, spec))
	}
	r := readBGP(t, strings.Join(text, "---\n")).Translate()
	for _, test := range []struct {
		had  map[string]string
		want []string
	}{
		{nil, []string{"all", "named"}},
		{map[string]string{}, []string{"all", "named", "selects-without"}},
		{map[string]string{"a": "b"}, []string{"all", "named", "selects"}},
	} {
		got := map[string]bool{}
		for _, route := range r.Orphans("gone", test.had) {
			got[route.Name] = true
		}
		if len(got) != len(test.want) {
			t.Errorf("had %v: %v", test.had, got)
		}
		for _, name := range test.want {
			if !got[name] {
				t.Errorf("had %v: %s is missing", test.had, name)
			}
		}
	}
	l2 := Objects{}
	for name, spec := range map[string]metallb.L2AdvertisementSpec{
		"all": {Interfaces: []string{"eth0"}}, "named": {Interfaces: []string{"eth1"}, IPAddressPools: []string{"gone"}}, "other": {Interfaces: []string{"eth2"}, IPAddressPools: []string{"there"}},
		"without": {Interfaces: []string{"eth3"}, IPAddressPoolSelectors: selectors(t, `[{matchExpressions: [{key: a, operator: DoesNotExist}]}]`)},
	} {
		ad := metallb.L2Advertisement{Spec: spec}
		ad.Name = name
		l2.Advertisements = append(l2.Advertisements, ad)
	}
	for _, test := range []struct {
		had  map[string]string
		want string
	}{{nil, "eth0 eth1"}, {map[string]string{}, "eth0 eth1 eth3"}, {map[string]string{"a": "b"}, "eth0 eth1"}} {
		var got []string
		for _, ad := range l2.Orphans("gone", test.had) {
			got = append(got, ad.Interfaces...)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("had %v: %v", test.had, got)
		}
	}
}

func selectors(t *testing.T, text string) (out []metav1.LabelSelector) {
	t.Helper()
	decode(t, text, &out)
	return out
}
