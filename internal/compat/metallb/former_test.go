package metallb

import (
	"strings"
	"testing"

	"fairlead.io/internal/lb"
)

// A change that makes an object unusable withdraws nothing: peers, advertisements and communities
// go on as they were while their object is there, and that is told. Nothing is known of objects
// that were never usable.
func TestUnusableObjectsGoOn(t *testing.T) {
	const (
		pool = "kind: IPAddressPool\nmetadata: {name: edge}\nspec: {addresses: [192.0.2.0/24]}\n"
		tor  = "---\nkind: BGPPeer\nmetadata: {name: tor, uid: u%U}\nspec: {myASN: 1, peerASN: 2, peerAddress: 198.51.100.1, %S}\n"
		ad   = "---\nkind: BGPAdvertisement\nmetadata: {name: ad, uid: u%U}\nspec: {%S}\n"
		vpn  = "---\nkind: Community\nmetadata: {name: names}\nspec: {communities: [{name: vpn, value: '1:%S'}]}\n"
		key  = "---\nkind: Secret\nmetadata: {name: key}\ntype: %S\nstringData: {password: '%U'}\n"
	)
	with := func(object, uid, spec string) string {
		return strings.NewReplacer("%U", uid, "%S", spec).Replace(object)
	}
	const basic = "kubernetes.io/basic-auth"
	type step struct {
		objects      string
		peer, routes string // as showPeers and showRoutes have them: a part; "" if there is none
		told         lb.Code
		text         string // "" if nothing is wrong
	}
	for name, c := range map[string]struct {
		kind  string
		steps []step
	}{
		"a peer": {KindPeer, []step{
			{objects: with(tor, "1", "holdTime: 2s"), told: PeerInvalid, text: "invalid hold time"},
			{objects: with(tor, "1", "holdTime: 9s"), peer: "hold 9s"},
			{objects: with(tor, "1", "holdTime: 2s"), peer: "hold 9s", told: PeerInvalid, text: "before"},
			{objects: with(tor, "1", "holdTime: [2]"), peer: "hold 9s", told: PeerInvalid, text: "before"},
			{objects: with(tor, "1", "holdTime: 12s"), peer: "hold 12s"},
			{objects: with(tor, "2", "holdTime: 2s"), told: PeerInvalid, text: "invalid hold time"}, // another one
			{objects: with(tor, "1", "holdTime: 2s"), told: PeerInvalid, text: "invalid hold time"}, // it was gone
		}},
		"a Secret": {KindPeer, []step{
			{objects: with(tor, "0", "holdTime: 9s"), peer: "hold 9s"},
			{objects: with(tor, "0", "passwordSecret: {name: key}"), peer: "hold 9s", told: PeerInvalid, text: "goes on"},
			{objects: with(tor, "1", "passwordSecret: {name: key}"), told: PeerInvalid, text: "does not exist"},
			{objects: with(tor, "1", "passwordSecret: {name: key}") + with(key, "one", basic), peer: "password one"},
			{objects: with(tor, "1", "passwordSecret: {name: key}"), peer: "password one", told: PeerInvalid, text: "does not exist. Correct it. The session goes on"},
			{objects: with(tor, "1", "passwordSecret: {name: key}") + with(key, "two", "Opaque"), peer: "password one", told: PeerInvalid, text: "of type"},
			{objects: with(tor, "1", "passwordSecret: {name: key}, holdTime: 9s"), peer: "hold 9s, keepalive 3s, password one", told: PeerInvalid, text: "does not exist"},
			{objects: with(tor, "1", "passwordSecret: {name: key}, holdTime: 2s"), peer: "hold 9s, keepalive 3s, password one", told: PeerInvalid, text: "invalid hold time"},
			{objects: with(tor, "1", "passwordSecret: {name: key}") + with(key, "two", basic), peer: "password two"},
		}},
		"an advertisement": {KindBGPAdvertisement, []step{
			{objects: with(ad, "1", "aggregationLength: 33"), told: AdvertisementInvalid, text: "33"},
			{objects: with(ad, "1", "localPref: 7"), routes: "preference 7", told: AdvertisementReady},
			{objects: with(ad, "1", "aggregationLength: 33"), routes: "preference 7", told: AdvertisementInvalid, text: "before"},
			{objects: with(ad, "1", "aggregationLength: 16"), routes: "/32 and /128, local preference 7", told: AggregateTooWide, text: "before"},
			{objects: with(ad, "1", "aggregationLength: 33"), routes: "/32 and /128, local preference 7", told: AdvertisementInvalid, text: "before"},
			{objects: with(ad, "1", "aggregationLength: 24"), routes: "/24", told: AdvertisementReady},
			{objects: with(ad, "1", "aggregationLength: 33"), routes: "/24", told: AdvertisementInvalid, text: "before"},
			{objects: with(ad, "2", "aggregationLength: 16"), told: AggregateTooWide, text: "/24"},
			{objects: with(ad, "2", "aggregationLength: 33"), told: AdvertisementInvalid, text: "33"}, // no pool ever used it
		}},
		"a community": {KindBGPAdvertisement, []step{
			{objects: with(ad, "1", "communities: [vpn, '1:1']"), routes: "communities [1:1]", told: CommunityUnknown, text: `"vpn"`},
			{objects: with(ad, "1", "communities: [vpn, '1:1']") + with(vpn, "", "2"), routes: "communities [1:2 1:1]", told: AdvertisementReady},
			{objects: with(ad, "1", "communities: [vpn, '1:1']"), routes: "communities [1:2 1:1]", told: CommunityGone, text: `"vpn"`},
			{objects: with(ad, "1", "communities: [vpn, '1:1']") + with(vpn, "", "x"), routes: "communities [1:2 1:1]", told: CommunityGone, text: `"vpn"`},
			{objects: with(ad, "1", "communities: [vpn, '1:1']") + with(vpn, "", "3"), routes: "communities [1:3 1:1]", told: AdvertisementReady},
			{objects: with(ad, "1", "communities: ['1:1']"), routes: "communities [1:1]", told: AdvertisementReady},
			{objects: with(ad, "1", "communities: [vpn]"), routes: "ad", told: CommunityUnknown, text: `"vpn"`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var former Former
			for i, s := range c.steps {
				b := readBGP(t, pool+s.objects)
				b.Former = former
				r := b.Translate()
				former = r.Former
				if got := showPeers(r.Peers); !strings.Contains(got, s.peer) || (s.peer == "") != (got == "") {
					t.Errorf("%d: peers are %q, want %q", i, got, s.peer)
				}
				if got := showRoutes(r.Routes); !strings.Contains(got, s.routes) || (s.routes == "") != (got == "") {
					t.Errorf("%d: routes are %q, want %q", i, got, s.routes)
				}
				var told lb.Reason
				for _, p := range r.Problems {
					if p.Kind == c.kind {
						told = p.Reason
					}
				}
				if told.Code != s.told || !strings.Contains(told.Text, s.text) {
					t.Errorf("%d: told is %v, want %s %q", i, told, s.told, s.text)
				}
				if strings.Contains(told.Text, "before") && s.peer == "" && s.routes == "" {
					t.Errorf("%d: told is %v, but nothing goes on", i, told)
				}
			}
		})
	}
}

// An advertisement that comes to be for more pools, and is refused, goes on for those that it was
// for, and is not used for others.
func TestRefusedForMorePools(t *testing.T) {
	const pools = "kind: IPAddressPool\nmetadata: {name: edge}\nspec: {addresses: [192.0.2.0/24]}\n---\n" +
		"kind: IPAddressPool\nmetadata: {name: lab}\nspec: {addresses: [198.51.100.0/24]}\n---\n"
	const ad = "kind: BGPAdvertisement\nmetadata: {name: ad, uid: u1}\nspec: "
	before := readBGP(t, pools+ad+"{ipAddressPools: [edge]}\n").Translate()
	b := readBGP(t, pools+ad+"{aggregationLength: 16}\n")
	b.Former = before.Former
	r := b.Translate()
	if got, want := showRoutes(r.Routes), "edge:\n  ad: /32 and /128\n"; got != want {
		t.Errorf("routes are\n%swant\n%s", got, want)
	}
	const want = `The advertisement is not used for pool "edge": its IPv4 aggregation length 16 is wider than an entry of the pool (/24). Use at least that length. ` +
		"Routes go on as the advertisement said before. " +
		`The advertisement is not used for pool "lab": its IPv4 aggregation length 16 is wider than an entry of the pool (/24). Use at least that length.`
	if got := told(&r, KindBGPAdvertisement); !strings.HasSuffix(got, want) {
		t.Errorf("told %q", got)
	}
}

// An advertisement that one pool refuses, and another one uses, goes on there when it becomes
// invalid.
func TestRefusedByOneOfTwoPools(t *testing.T) {
	const pools = "kind: IPAddressPool\nmetadata: {name: edge}\nspec: {addresses: [192.0.2.0/24]}\n---\n" +
		"kind: IPAddressPool\nmetadata: {name: wide}\nspec: {addresses: [10.1.0.0/16]}\n---\n"
	const ad = "kind: BGPAdvertisement\nmetadata: {name: ad, uid: u1}\nspec: "
	before := readBGP(t, pools+ad+"{aggregationLength: 16}\n").Translate()
	b := readBGP(t, pools+ad+"{aggregationLength: 33}\n")
	b.Former = before.Former
	for _, r := range []map[string][]lb.Route{before.Routes, b.Translate().Routes} {
		if got, want := showRoutes(r), "wide:\n  ad: /16 and /128\n"; got != want {
			t.Errorf("routes are\n%swant\n%s", got, want)
		}
	}
}
