package nft_test

import (
	"testing"

	"fairlead.io/internal/nft"
	"fairlead.io/test/kit/netns"
)

// Rules of kube-proxy are found in each of its modes, and nothing else is taken for
// them.
func TestKubeProxyRules(t *testing.T) {
	for name, c := range map[string]struct {
		make func(*netns.NS)
		want bool
	}{
		"none":     {func(*netns.NS) {}, false},
		"another":  {func(n *netns.NS) { n.Run("nft", "add table ip nat; add chain ip nat SERVICES; add table ip proxy") }, false},
		"nftables": {func(n *netns.NS) { n.Run("nft", "add table ip6 kube-proxy") }, true},
		"iptables": {func(n *netns.NS) { n.Run("iptables-nft", "-t", "nat", "-N", "KUBE-SERVICES") }, true},
		"iptables, its own tables": {func(n *netns.NS) {
			n.Run("iptables-legacy", "-t", "nat", "-N", "KUBE-SERVICES")
		}, true},
		"its own tables, of another": {func(n *netns.NS) { n.Run("iptables-legacy", "-t", "nat", "-N", "SERVICES") }, false},
		"ipvs":                       {func(n *netns.NS) { n.Run("ip", "link", "add", "kube-ipvs0", "type", "bridge") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			node := netns.New(t, "node")
			c.make(node)
			var got bool
			node.Do(func() { got = nft.KubeProxyRules() })
			if got != c.want {
				t.Errorf("rules: %t, want %t", got, c.want)
			}
		})
	}
}
