package failover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/talk"
)

const talkPort = 18090

// talks are connections that are kept open through the addresses of a Service.
type talks struct {
	*world
	open []*talk.Conn
}

// newTalks makes a Service of both protocols that leads to a server which keeps connections.
func newTalks(t *testing.T) *talks {
	t.Helper()
	serveTalks(t)
	x := &talks{world: newWorld(t, func(s *corev1.Service) { s.Name, s.Spec.Ports = "talks", talkPorts })}
	leadToTalks(t, x.service)
	t.Cleanup(x.close)
	x.answered()
	return x
}

var talkPorts = []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "talk", Port: talkPort}, {Name: "talk-udp", Port: talkPort, Protocol: corev1.ProtocolUDP}}

// leadToTalks has a Service lead to the server which keeps connections: beside the cluster, or
// on each node if it keeps clients' addresses.
func leadToTalks(t *testing.T, s *corev1.Service) {
	t.Helper()
	for _, family := range s.Spec.IPFamilies {
		slice := newSlice(s, family, "10.77.0.1", "fd77::1")
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: ptr.To("talk"), Port: ptr.To(int32(talkPort)), Protocol: ptr.To(corev1.ProtocolTCP)},
			discoveryv1.EndpointPort{Name: ptr.To("talk-udp"), Port: ptr.To(int32(talkPort)), Protocol: ptr.To(corev1.ProtocolUDP)})
		if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			slice.Endpoints = nil
			for _, node := range nodes {
				here := newSlice(s, family, addressesAt(node)[0], addressesAt(node)[1]).Endpoints[0]
				here.NodeName = &node
				slice.Endpoints = append(slice.Endpoints, here)
			}
		}
		if err := api.Update(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
	}
}

// addressesAt are those of a node.
func addressesAt(node string) [2]string {
	number := node[len(node)-1:]
	return [2]string{"10.77.0.1" + number, "fd77::1" + number}
}

// answered waits until connections to all addresses are answered.
func (x *talks) answered() {
	x.t.Helper()
	for _, addr := range x.addrs {
		for _, network := range []string{"tcp", "udp"} {
			eventually(x.t, func() error {
				c, err := talk.Open(x.t.Context(), cluster, network, netip.AddrPortFrom(addr, talkPort))
				if err == nil {
					c.Close()
				}
				return err
			})
		}
	}
}

func (x *talks) close() {
	var closing sync.WaitGroup
	for _, c := range x.open {
		closing.Go(c.Close)
	}
	closing.Wait()
	x.open = nil
}

// serveTalks runs the server beside the cluster.
func serveTalks(t *testing.T) {
	t.Helper()
	serveTalksOn(t, sandbox.ControlHost, [2]string{"10.77.0.1", "fd77::1"}, talk.Serve, talk.ServePackets)
}

// serveTalksOn runs the server on a host with these addresses.
func serveTalksOn(t *testing.T, host string, addrs [2]string, serve func(net.Listener), servePackets func(net.PacketConn)) {
	t.Helper()
	var l net.Listener
	var packets []net.PacketConn
	if err := cluster.In(host, func() (err error) {
		if l, err = net.Listen("tcp", fmt.Sprintf(":%d", talkPort)); err != nil {
			return err
		}
		// One for each address: an answer leaves from the one that was asked.
		for _, own := range addrs {
			c, err := net.ListenPacket("udp", net.JoinHostPort(own, fmt.Sprint(talkPort)))
			if err != nil {
				return err
			}
			packets = append(packets, c)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Close()
		for _, c := range packets {
			_ = c.Close()
		}
	})
	go serve(l)
	for _, c := range packets {
		go servePackets(c)
	}
}

// begin opens connections of each kind through each address, all of which must go through a node.
func (x *talks) begin(node string, idle, steady, packets int, rate int64) {
	x.t.Helper()
	for _, addr := range x.addrs {
		for i := range idle + steady + packets + 1 {
			network := "tcp"
			if i >= idle+steady && i < idle+steady+packets {
				network = "udp"
			}
			c, err := talk.Open(x.t.Context(), cluster, network, netip.AddrPortFrom(addr, talkPort))
			if err != nil {
				x.t.Fatalf("new connection: %v", err)
			}
			x.open = append(x.open, c)
			if got := nodeAt(c.Peer); got != node {
				x.t.Errorf("a new connection to %s goes through %s, not %s", addr, got, node)
			}
			switch {
			case i < idle:
			case i < idle+steady+packets || rate == 0:
				c.Chat(100 * time.Millisecond)
			default:
				c.Stream(1<<40, rate)
			}
		}
	}
}

// nodeAt is the node that has an address, as the server sees it.
func nodeAt(a netip.Addr) string {
	text := a.String()
	return "node" + text[len(text)-1:]
}

// unbroken says something on each connection, and fails if one is broken.
func (x *talks) unbroken(when string) {
	x.t.Helper()
	broken := 0
	var example string
	for _, c := range x.open {
		err := c.Err()
		if err != nil {
			broken++
			example = fmt.Sprintf("through %s: %v", nodeAt(c.Peer), err)
		}
	}
	if broken > 0 {
		x.t.Errorf("%s: %d of %d connections are broken, one %s", when, broken, len(x.open), example)
	}
}

// alive waits until every connection has gone on since.
func (x *talks) alive(when string, idle func(int) bool) {
	x.t.Helper()
	var before []int64
	for i, c := range x.open {
		before = append(before, c.Bytes())
		if idle(i) {
			if err := c.Say(64); err != nil {
				x.t.Errorf("%s: an idle connection through %s: %v", when, nodeAt(c.Peer), err)
			}
		}
	}
	eventually(x.t, func() error {
		for i, c := range x.open {
			if err := c.Err(); err == nil && c.Bytes() == before[i] {
				return fmt.Errorf("nothing comes back any more through %s (UDP: %t)", nodeAt(c.Peer), c.UDP)
			}
		}
		return nil
	})
	x.unbroken(when)
}

// ownedBy has a node own the addresses, by cordoning the others.
func (x *talks) ownedBy(node string) {
	x.t.Helper()
	cordon(x.t, node, false)
	for _, other := range nodes {
		if other != node {
			cordon(x.t, other, true)
		}
	}
}

// uncordonAll leaves nodes as they were.
func uncordonAll(t *testing.T) {
	for _, node := range nodes {
		o := &corev1.Node{}
		o.Name = node
		if err := api.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":false}}`))); err != nil {
			t.Error(err)
		}
	}
}

// carriedBy is what the Agent object of a node says about connections.
func carriedBy(t *testing.T, node string) (carried map[string]int32) {
	t.Helper()
	var a v1alpha1.Agent
	if err := api.Get(t.Context(), client.ObjectKey{Name: node}, &a); err != nil {
		t.Fatal(err)
	}
	carried = map[string]int32{}
	for _, c := range a.Status.Carried {
		carried[c.Node] += c.Connections
	}
	return carried
}

// Established connections survive planned moves: the node that has them goes on, and the next
// owner hands their packets to it. New ones belong to the new owner at once.
func TestConnectionsSurviveMoves(t *testing.T) {
	const idle, steady, packets = 100, 30, 5
	x := newTalks(t)
	t.Cleanup(func() { uncordonAll(t) })
	each := idle + steady + packets + 1
	isIdle := func(i int) bool { return i%each < idle }
	a := x.settled()
	x.begin(a, idle, steady, packets, 4<<20)
	x.alive("in the beginning", isIdle)
	big := x.transfer(1<<30, 32<<20)

	connections := connecting(t, x.addrs...)
	cordon(t, a, true)
	b := x.moved(a)
	x.begin(b, idle, steady, packets, 4<<20)
	x.alive("after a cordon", isIdle)
	if failed := beyondHandOver(connections()); len(failed) > 0 {
		t.Errorf("new connections failed: %v", failed)
	}
	eventually(t, func() error { return x.toldCarried(a, b, 2*each) })
	eventually(t, func() error { return x.toldKept(a, each) })

	cordon(t, b, true)
	c := x.moved(b)
	x.begin(c, idle, steady, packets, 0)
	x.alive("after a second move", isIdle)

	// The agents of the present and of a former owner are followed by others.
	for _, node := range []string{c, a} {
		old, next := running[node], launch(t, node)
		next.awaitReady(t)
		old.terminate(t)
		running[node] = next
	}
	// And one crashes that has connections.
	running[b].kill(t)
	x.alive("while an agent is away", isIdle)
	agentsRun(t, nodes...)
	x.alive("after upgrades", isIdle)

	x.ownedBy(a)
	eventually(t, func() error { return x.onlyAt(a) })
	x.settled()
	x.alive("after the return", isIdle)

	// A ring: nobody waits for anything.
	for _, node := range []string{b, c, a, b} {
		x.ownedBy(node)
	}
	eventually(t, func() error { return x.onlyAt(b) })
	x.settled()
	x.alive("after a ring of moves", isIdle)
	if big.Wait(); big.Err() != nil || big.Bytes() < 1<<30 {
		t.Errorf("a transfer ended after %d bytes: %v", big.Bytes(), big.Err())
	}
	x.begin(b, idle, steady, packets, 0)

	// The agent of the owner is told to end: the node has connections, and no agent.
	leaving := running[b]
	leaving.signal(t, syscall.SIGTERM)
	for _, node := range nodes {
		cordon(t, node, node != c)
	}
	eventually(t, func() error { return x.onlyAt(c) })
	x.alive("while the former owner leaves", isIdle)
	x.unbroken("before a death")
	x.lostFew()

	// A node with connections dies: each of its packets is answered by a reset.
	if err := cluster.Cut(a); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Heal(a) })
	died := time.Now()
	x.reset(a, died)
	eventually(t, func() error {
		if time.Since(died) < time.Second {
			return errors.New("a second has not passed")
		}
		return nil
	})
	for i, c := range x.open { // now of those that have been idle
		if isIdle(i) && nodeAt(c.Peer) == a {
			began := time.Now()
			if err := c.Say(64); err == nil || !c.Reset() || time.Since(began) > time.Second {
				t.Errorf("a packet to a dead node is not answered by a reset: %v after %v", err, time.Since(began))
			}
		}
	}

	// The agent that leaves has waited for the connections of its node.
	if !leaving.alive() {
		t.Errorf("the agent of %s has not waited", b)
	}
	x.close()
	if err := cluster.Heal(a); err != nil {
		t.Fatal(err)
	}
	leaving.gone(t)
}

// transfer sends so many bytes through the first address, at a rate, and compares what comes back.
func (x *talks) transfer(size, rate int64) *talk.Conn {
	x.t.Helper()
	c, err := talk.Open(x.t.Context(), cluster, "tcp", netip.AddrPortFrom(x.addrs[0], talkPort))
	if err != nil {
		x.t.Fatalf("new connection: %v", err)
	}
	x.t.Cleanup(c.Close)
	c.Stream(size, rate)
	return c
}

// toldCarried says whether the Agent object and the metrics say that a node hands so many
// connections to the former one, at least.
func (x *talks) toldCarried(former, node string, least int) error {
	if got := carriedBy(x.t, node); got[former] < int32(least) {
		return fmt.Errorf("the Agent object of %s says that it carries %v, not %d to %s", node, got, least, former)
	}
	for at, name := range map[string]string{node: "fairlead_agent_carried_connections", former: "fairlead_agent_remaining_connections"} {
		if got, err := metric(x.t, at, name); err != nil || got < float64(least) {
			return fmt.Errorf("metric %s of %s is %v, not %d: %w", name, at, got, least, err)
		}
	}
	if got, err := metric(x.t, node, "fairlead_agent_carried_packets_total"); err != nil || got == 0 {
		return fmt.Errorf("metric fairlead_agent_carried_packets_total of %s is %v: %w", node, got, err)
	}
	return nil
}

// metric is that of the agent of a node.
func metric(t *testing.T, node, name string) (float64, error) {
	t.Helper()
	all, err := running[node].get(t.Context(), running[node].metrics, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(all) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("there is no metric " + name)
}

// movedEvents are what events say about the moves of an address of the Service from a node.
func (x *talks) movedEvents(service *corev1.Service, from string) (out []string, err error) {
	var events corev1.EventList
	if err := api.List(x.t.Context(), &events, client.InNamespace("default")); err != nil {
		return nil, err
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.InvolvedObject.UID == service.UID && e.Reason == "Moved" && strings.Contains(e.Message, " moved from "+from+",") {
			out = append(out, e.Message)
		}
	}
	return out, nil
}

// toldKept says whether events about the move of all addresses from a node say how many
// connections were kept: those of the test, and a few that have just ended.
func (x *talks) toldKept(from string, least int) error {
	messages, err := x.movedEvents(x.service, from)
	if err != nil {
		return err
	}
	if len(messages) < len(x.addrs) {
		return fmt.Errorf("%d events about moves from %s", len(messages), from)
	}
	for _, m := range messages {
		kept := regexp.MustCompile(` (\d+) established connections are kept\.`).FindStringSubmatch(m)
		if kept == nil {
			x.t.Fatalf("an event does not say how many connections are kept: %s", m)
		}
		if n, _ := strconv.Atoi(kept[1]); n < least || n > least+maxEnding {
			x.t.Fatalf("an event says that %d connections are kept, not %d: %s", n, least, m)
		}
	}
	return nil
}

// maxEnding is how many other connections there may be in a move: those that are opened every
// 20 ms have not all ended.
const maxEnding = 20

// lostFew checks that few datagrams were lost: those on their way while an address moved.
func (x *talks) lostFew() {
	x.t.Helper()
	flows, lost := 0, 0
	for _, c := range x.open {
		if c.UDP {
			flows++
			lost += c.Lost()
		}
	}
	x.t.Logf("of %d flows of datagrams, %d datagrams were lost", flows, lost)
	if lost > 2*flows {
		x.t.Errorf("%d datagrams of %d flows were lost", lost, flows)
	}
}

// reset waits until all connections through a node that said something since are reset, and no
// others.
func (x *talks) reset(node string, died time.Time) {
	x.t.Helper()
	talking := 0
	eventually(x.t, func() error {
		talking = 0
		for _, c := range x.open {
			if nodeAt(c.Peer) != node || c.UDP || !c.Talks() {
				continue
			}
			talking++
			if err := c.Err(); err == nil {
				return errors.New("a connection through " + node + " is neither reset nor answered")
			}
		}
		return nil
	})
	var slowest time.Duration
	for _, c := range x.open {
		err, at := c.Err(), c.Broken()
		switch through := nodeAt(c.Peer); {
		case through != node && err != nil:
			x.t.Errorf("a connection through %s broke with %s: %v", through, node, err)
		case through == node && !c.UDP && c.Talks():
			if !c.Reset() {
				x.t.Errorf("a connection through %s is not reset: %v", node, err)
			}
			slowest = max(slowest, at.Sub(died))
		}
	}
	x.t.Logf("%d connections through %s were reset, the last after %v", talking, node, slowest.Round(time.Millisecond))
	// The node is dead after 0.6 s. A client may send again only after as long as it has waited.
	if slowest > 5*time.Second {
		x.t.Errorf("a connection through %s was reset only after %v", node, slowest)
	}
	if talking == 0 {
		x.t.Error("there were no connections to reset")
	}
}
