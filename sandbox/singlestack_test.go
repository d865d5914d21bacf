package sandbox

import (
	"slices"
	"strings"
	"testing"
)

func TestFamiliesOfNodes(t *testing.T) {
	for _, c := range []struct {
		single bool
		pods   string
		ipv6   bool
	}{
		{false, "--cluster-cidr=10.244.0.0/16,fd44::/48", true},
		{true, "--cluster-cidr=10.244.0.0/16", false},
	} {
		cluster := &Cluster{SingleStack: c.single}
		n := nodeConfig{PodCIDRs: cluster.families(nodeHost(1).podCIDRs())}
		if args := n.proxyArgs(); !slices.Contains(args, c.pods) {
			t.Errorf("kube-proxy has %q, want %s", args, c.pods)
		}
		cni, err := n.cni()
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(cni, "::/0"); has != c.ipv6 {
			t.Errorf("pods have an IPv6 route: %t, want %t", has, c.ipv6)
		}
	}
}
