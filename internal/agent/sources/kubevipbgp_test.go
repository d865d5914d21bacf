package sources

import (
	"log/slog"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// Services in kube-vip's format are announced to the peers of its environment, and not on the
// LAN; other Services are not.
func TestPeersOfKubeVIP(t *testing.T) {
	b, err := config.KubeVIPBGPFrom([]string{"bgp_enable=true", "bgp_as=65010", "bgp_routerid=192.0.2.11", "bgp_peers=192.0.2.254:65001::false,192.0.2.253:65001::false"})
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{KubeVIPBGP: b, Config: config.Default(), Log: slog.New(slog.DiscardHandler)}, nil)
	peers := r.kubevipPeers(t.Context())
	if len(peers) != 2 || peers[0].Name != "kube-vip/192.0.2.254" || !peers[0].NamedOnly || peers[0].LocalAS != 65010 || peers[0].PeerAS != 65001 {
		t.Fatalf("%+v", peers)
	}
	p := NewPools(nil, nil)
	p.Peers, p.ownRoutes = peers, r.kubevipRoutes(peers)
	addr := netip.MustParseAddr("198.51.100.7")
	theirs, others := &Service{Routed: true}, &Service{}
	if _, ads := p.Of(addr, theirs); len(ads) > 0 {
		t.Errorf("announced on the LAN: %+v", ads)
	}
	if routes := p.Routes(addr, others); len(routes) > 0 {
		t.Errorf("other Services: %+v", routes)
	}
	paths, _ := lb.Paths(addr, []labels.Set{nil}, nil, p.Routes(addr, theirs), []string{peers[0].Name, peers[1].Name, "tor"})
	if len(paths) != 2 || paths[0].Peer != "kube-vip/192.0.2.253" || paths[0].Prefix.Bits() != 32 {
		t.Errorf("%+v", paths)
	}
	// Peers that nobody has named yet are not all peers.
	p.ownRoutes = r.kubevipRoutes(nil)
	if paths, _ := lb.Paths(addr, []labels.Set{nil}, nil, p.Routes(addr, theirs), []string{"tor"}); len(paths) > 0 {
		t.Errorf("%+v", paths)
	}
}
