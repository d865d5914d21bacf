package failover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/router"
)

// manySessions is a BIRD with sessions of many kinds with node1, each on a port of its own. It
// has one session for each address and port of a neighbor, though it never connects to these.
const manySessions = `
router id 10.77.0.252;
protocol device { }
template bgp node {
  local 10.77.0.252 as 65020;
  direct; passive;
  error wait time 1, 2; error forget time 3;
  ipv4 { import all; export none; };
  ipv6 { import all; export none; };
}
protocol bgp wide from node { local port 1001 as 4200000001; neighbor 10.77.0.11 port 1001 as 4200000002; }
protocol bgp dyn from node { local port 1002; neighbor 10.77.0.11 port 1002 as 65010; }
protocol bgp wrong from node { local port 1003; neighbor 10.77.0.11 port 1003 as 65010; }
protocol bgp alias from node { local port 1004; neighbor 10.77.0.11 port 1004 as 64777; }
protocol bgp origin from node { local port 1005; neighbor 10.77.0.111 port 1005 as 65010; }
protocol bgp nosource from node { local port 1006; neighbor 10.77.0.11 port 1006 as 65010; }
protocol bgp six from node { local fd77::252 port 1007 as 65020; neighbor fd77::11 port 1007 as 65010; }
protocol bgp bare from node { local 10.79.0.2 port 1008 as 65020; neighbor 10.79.0.1 port 1008 as 65010; }
`

// onNode1 is a peer of that node only.
func onNode1(fields string) string {
	return "{nodeSelectors: [{matchLabels: {kubernetes.io/hostname: node1}}], " + fields + "}"
}

// birdSays waits until BIRD says all of these about a session.
func (r *routers) birdSays(command string, words ...string) {
	r.t.Helper()
	eventually(r.t, func() error { return saysAll(r.bird.Show(command), words...) })
}

// cable connects a node with a router, beside the switch.
func (r *routers) cable(node, port string, to *netns.NS, nic string) {
	r.t.Helper()
	to.Run("ip", "link", "add", nic, "type", "veth", "peer", "name", port, "netns", cluster.Name+"-"+node)
	r.t.Cleanup(func() { _, _ = cluster.Exec(context.Background(), node, "ip", "link", "delete", port) })
	to.Run("ip", "link", "set", nic, "up")
	onHost(r.t, node, "ip", "link", "set", port, "up")
}

// Sessions of many kinds: wide AS numbers, dynamic ones, one of the session's own; timers; source
// addresses; the other family.
func TestBGPSessions(t *testing.T) {
	r, _, addrs := bgpWorld(t)
	r.addBIRD(manySessions)
	r.cable("node1", "up9", r.birds, "eth9") // with addresses of one family only
	r.birds.Run("ip", "address", "add", "10.79.0.2/24", "dev", "eth9")
	onHost(t, "node1", "ip", "address", "add", "10.79.0.1/24", "dev", "up9")
	onHost(t, "node1", "sh", "-c", "ip -6 address flush dev up9; ip address add 10.77.0.111/32 dev $(ip -o route get 10.77.0.252 | sed 's/.*dev \\([^ ]*\\).*/\\1/')")
	t.Cleanup(func() {
		_, _ = cluster.Exec(context.Background(), "node1", "sh", "-c", "ip address delete 10.77.0.111/32 dev $(ip -o route get 10.77.0.252 | sed 's/.*dev \\([^ ]*\\).*/\\1/')")
	})
	for name, fields := range map[string]string{
		"wide":     "peerAddress: 10.77.0.252, peerPort: 1001, myASN: 4200000002, peerASN: 4200000001, holdTime: 9s, dualStackAddressFamily: true",
		"dyn":      "peerAddress: 10.77.0.252, peerPort: 1002, myASN: 65010, dynamicASN: external, keepaliveTime: 5s",
		"wrong":    "peerAddress: 10.77.0.252, peerPort: 1003, myASN: 65010, dynamicASN: internal",
		"alias":    "peerAddress: 10.77.0.252, peerPort: 1004, myASN: 65010, localASN: 64777, peerASN: 65020, holdTime: 0s, keepaliveTime: 0s",
		"origin":   "peerAddress: 10.77.0.252, peerPort: 1005, myASN: 65010, peerASN: 65020, sourceAddress: 10.77.0.111",
		"nosource": "peerAddress: 10.77.0.252, peerPort: 1006, myASN: 65010, peerASN: 65020, sourceAddress: 10.77.0.199",
		"six":      "peerAddress: 'fd77::252', peerPort: 1007, myASN: 65010, peerASN: 65020, dualStackAddressFamily: true",
		"bare":     "peerAddress: 10.79.0.2, peerPort: 1008, myASN: 65010, peerASN: 65020, dualStackAddressFamily: true",
	} {
		bgpObject(t, "BGPPeer", name, onNode1(fields))
	}
	four, six := hostPrefix(addrs[0]).String(), hostPrefix(addrs[1]).String()
	r.birdSays("show route all protocol wide", "BGP.as_path: 4200000002\n", four, six)
	r.birdSays("show protocols all wide", "Hold timer:", "/9", "/3")
	r.birdSays("show route all protocol dyn", "BGP.as_path: 65010\n")
	r.birdSays("show protocols all dyn", "/15", "/5")
	awaitPeer(t, "node1", "wrong", "PeerRefused", "AS 65010, the same as ours")
	r.birdSays("show protocols all wrong", "Bad peer AS")
	r.birdSays("show route all protocol alias", "BGP.as_path: 64777\n")
	r.birdSays("show protocols all alias", "Established", "/0")
	r.birdSays("show route all protocol origin", "BGP.next_hop: 10.77.0.111\n")
	awaitPeer(t, "node1", "nosource", "PeerSourceMissing", "10.77.0.199")
	r.birdSays("show route all protocol nosource", "BGP.next_hop: 10.77.0.11\n")
	r.birdSays("show route all protocol six", four, "BGP.next_hop: 10.77.0.11\n", six, "BGP.next_hop: fd77::11")
	awaitPeer(t, "node1", "bare", "NoNextHop", six)
	r.birdSays("show route all protocol bare", four, "BGP.next_hop: 10.79.0.1\n", "!"+six)

	// An address of the other family that comes later is the next hop then. The kernel drops what
	// arrives there, because its routes to clients lead elsewhere.
	r.birds.Run("ip", "address", "add", "fd79::2/64", "dev", "eth9", "nodad")
	onHost(t, "node1", "sysctl", "-qw", "net.ipv4.conf.up9.rp_filter=1")
	onHost(t, "node1", "ip", "address", "add", "fd79::1/64", "dev", "up9", "nodad")
	r.birdSays("show route all protocol bare", six, "BGP.next_hop: fd79::1")
	awaitPeer(t, "node1", "bare", "ReversePathFiltered", "net.ipv4.conf.up9.rp_filter to 2")
	onHost(t, "node1", "sysctl", "-qw", "net.ipv4.conf.up9.rp_filter=2")
	awaitPeer(t, "node1", "bare", "PeerReady", "")

	// A router that forgets what it has learned asks again.
	sent := func() string {
		out, err := running["node1"].get(t.Context(), running["node1"].metrics, "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		return between(out, `fairlead_bgp_updates_sent_total{peer="wide"}`, "\n")
	}
	before := sent()
	r.bird.Show("reload in wide")
	eventually(t, func() error {
		if sent() == before {
			return errors.New("nothing was sent again")
		}
		return nil
	})

	// Without graceful restart, routes end with the agent.
	running["node1"].kill(t)
	r.birdSays("show route all protocol wide", "!"+four)

	// Objects that MetalLB has stored can be read although its webhook, which converts others, is
	// gone.
	definition := &apiextensionsv1.CustomResourceDefinition{}
	definition.Name = "bgppeers.metallb.io"
	convert := func(ctx context.Context, body string) error {
		return api.Patch(ctx, definition, client.RawPatch(types.MergePatchType, []byte(body)))
	}
	if err := convert(t.Context(), `{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1beta1"],"clientConfig":{"service":{"namespace":"metallb-system","name":"metallb-webhook-service","path":"/convert"}}}}}}`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := convert(context.Background(), `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`); err != nil {
			t.Error(err)
		}
	})
	agentsRun(t, nodes...)
	r.birdSays("show route all protocol wide", four)
}

// onNode runs a program on a node until the test ends.
func onNode(t *testing.T, node string, command ...string) {
	t.Helper()
	cmd, err := cluster.ExecCommand(context.Background(), node, command...)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = cluster.Exec(context.Background(), node, "sh", "-c", `for p in /proc/[0-9]*; do if tr '\0' ' ' <$p/cmdline | grep -q "`+filepath.Base(command[len(command)-1])+`"; then kill -9 ${p#/proc/}; fi; done`)
		_ = cmd.Wait()
	})
}

// Another BGP speaker on a node keeps its session, and another BFD daemon its port: the agent
// says so.
func TestBGPBesideOthers(t *testing.T) {
	r, _, addrs := bgpWorld(t)
	p := hostPrefix(addrs[0])
	bgpObject(t, "BGPPeer", "tor", strings.Replace(tor, "{", "{nodeSelectors: [{matchExpressions: [{key: kubernetes.io/hostname, operator: NotIn, values: [node1]}]}], ", 1))
	r.leadsTo(p, "node2", "node3")
	config := filepath.Join(scratch, "beside.conf")
	if err := os.WriteFile(config, []byte(`
router id 10.77.0.11;
protocol device { }
protocol bfd { interface "*" { min rx interval 300 ms; min tx interval 300 ms; }; }
protocol static { ipv4; route 192.0.2.99/32 blackhole; }
protocol bgp speaker { local 10.77.0.11 as 65010; neighbor 10.77.0.251 as 65001; connect delay time 1; ipv4 { import none; export all; }; }
`), 0o644); err != nil {
		t.Fatal(err)
	}
	onNode(t, "node1", "bird", "-f", "-P", filepath.Join(scratch, "beside.pid"), "-s", filepath.Join(scratch, "beside.ctl"), "-c", config)
	eventually(t, func() error { return r.established("node1") })
	before := r.sessions("node1")
	bgpObject(t, "BGPPeer", "tor", tor)
	awaitPeer(t, "node1", "tor", "PeerConflict", "6/7")
	if after := r.sessions("node1"); after != before || r.established("node1") != nil {
		t.Errorf("the other speaker had %s sessions before, and %s after", before, after)
	}

	// BIRD on the router's side takes a session, but the port for BFD is not ours.
	r.addBIRD(manySessions)
	bgpObject(t, "BFDProfile", "fast", `{receiveInterval: 300, transmitInterval: 300, detectMultiplier: 3}`)
	bgpObject(t, "BGPPeer", "dyn", onNode1("peerAddress: 10.77.0.252, peerPort: 1002, myASN: 65010, peerASN: 65020, bfdProfile: fast, dualStackAddressFamily: true"))
	awaitPeer(t, "node1", "dyn", "BFDPortTaken", "3784")
	if got, err := peerOf(t, "node1", "dyn"); err != nil || got.State != "Established" {
		t.Errorf("%+v %v", got, err)
	}
}

// A router behind another one, with BFD over several hops; and a router without an address.
func TestBGPFarAndUnnumbered(t *testing.T) {
	r, _, addrs := bgpWorld(t)
	four, six := hostPrefix(addrs[0]), hostPrefix(addrs[1])

	// BIRD is beside the client, behind FRR.
	r.addFarBIRD(`
router id 203.0.113.9;
protocol device { }
protocol static { ipv4; route 10.77.0.0/24 via 203.0.113.1; }
protocol bfd { multihop { min rx interval 300 ms; min tx interval 300 ms; multiplier 3; }; }
protocol bgp node { local 203.0.113.9 as 65030; neighbor 10.77.0.11 as 65010; multihop; passive; bfd on; error wait time 1, 2; ipv4 { import all; export none; }; }
`)
	bgpObject(t, "BFDProfile", "far", `{receiveInterval: 300, transmitInterval: 300, detectMultiplier: 3, minimumTtl: 60}`)
	bgpObject(t, "BGPPeer", "far", onNode1("peerAddress: 203.0.113.9, myASN: 65010, peerASN: 65030, ebgpMultiHop: true, bfdProfile: far"))
	r.birdSays("show route all protocol node", four.String(), "BGP.next_hop: 10.77.0.11\n")
	r.birdSays("show bfd sessions", "Up")
	watched := func(state string) {
		t.Helper()
		eventually(t, func() error {
			got, err := peerOf(t, "node1", "far")
			if err == nil && got.BFD != state {
				err = fmt.Errorf("%+v", got)
			}
			return err
		})
	}
	watched("Up")
	// Packets that come from farther away than permitted do not count.
	r.ns.Run("nft", "add table ip far; add chain ip far forward { type filter hook forward priority 0; }; add rule ip far forward udp dport 4784 ip ttl set 50")
	watched("Down")
	awaitPeer(t, "node1", "far", "BFDDown", "TTL")
	r.ns.Run("nft", "delete table ip far")
	watched("Up")

	// FRR on a cable of its own, which makes itself known by router advertisements.
	r.cable("node1", "up8", r.ns, "eth8")
	r.frr.Configure("router bgp 65001", "neighbor eth8 interface remote-as external", "neighbor eth8 capability extended-nexthop",
		"address-family ipv4 unicast", "neighbor eth8 activate", "exit-address-family", "address-family ipv6 unicast", "neighbor eth8 activate")
	bgpObject(t, "BGPPeer", "tor", strings.Replace(tor, "{", "{nodeSelectors: [{matchLabels: {kubernetes.io/hostname: nobody}}], ", 1))
	bgpObject(t, "BGPPeer", "unnumbered", onNode1("interface: up8, myASN: 65010, dynamicASN: external"))
	eventually(t, func() error {
		return errors.Join(
			saysAll(r.ns.Run("ip", "-4", "route", "show", four.String()), "via inet6 fe80", "dev eth8"),
			saysAll(r.ns.Run("ip", "-6", "route", "show", six.String()), "via fe80", "dev eth8"))
	})
}

// addFarBIRD starts BIRD on the client's side of FRR.
func (r *routers) addFarBIRD(config string) {
	r.t.Helper()
	r.host.Run("ip", "address", "add", "203.0.113.9/24", "dev", "eth0")
	r.birds, r.bird = r.host, router.StartBIRD(r.t, r.host, config)
}
