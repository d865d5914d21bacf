package site

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"fairlead.io/sandbox"
)

// OnInterfaces returns the single addresses, as those of Services are, that are on
// interfaces of nodes, and of which nodes. Nodes that do not run have none.
func OnInterfaces(ctx context.Context, c *sandbox.Cluster, nodes ...string) (map[netip.Addr][]string, error) {
	where := map[netip.Addr][]string{}
	for _, node := range nodes {
		out, err := c.Exec(ctx, node, "ip", "-o", "address")
		if err != nil {
			if strings.Contains(err.Error(), "it does not run") {
				continue
			}
			return nil, err
		}
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			if len(fields) < 4 {
				continue
			}
			prefix, err := netip.ParsePrefix(fields[3])
			if err == nil && prefix.IsSingleIP() && !prefix.Addr().IsLoopback() {
				where[prefix.Addr()] = append(where[prefix.Addr()], node)
			}
		}
	}
	return where, nil
}

// Forwarded fails while kube-proxy of a node, which writes nftables, does not know an address.
func Forwarded(ctx context.Context, c *sandbox.Cluster, node string, addrs ...netip.Addr) error {
	for _, family := range []string{"ip", "ip6"} {
		rules, err := c.Exec(ctx, node, "nft", "list table "+family+" kube-proxy")
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if a.Is4() == (family == "ip") && !strings.Contains(string(rules), a.String()) {
				return fmt.Errorf("kube-proxy of %s does not know %s", node, a)
			}
		}
	}
	return nil
}

// Deaf has a node not hear the gossip of others until heal is called.
func Deaf(ctx context.Context, c *sandbox.Cluster, node string, others ...string) (heal func(context.Context) error, err error) {
	rules := "add table inet deaf\nadd chain inet deaf input { type filter hook input priority -300; }\n"
	for _, other := range others {
		rules += fmt.Sprintf("add rule inet deaf input ip saddr 10.77.0.1%s meta l4proto { tcp, udp } th dport 7947 drop\n", other[len(other)-1:])
		rules += fmt.Sprintf("add rule inet deaf input ip saddr 10.77.0.1%s meta l4proto { tcp, udp } th sport 7947 drop\n", other[len(other)-1:])
	}
	_, err = c.Exec(ctx, node, "nft", rules)
	return func(ctx context.Context) error {
		_, err := c.Exec(ctx, node, "nft", "delete table inet deaf")
		return err
	}, err
}
