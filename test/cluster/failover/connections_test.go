package failover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
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
	ports := []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "talk", Port: talkPort}, {Name: "talk-udp", Port: talkPort, Protocol: corev1.ProtocolUDP}}
	w := newWorld(t, func(s *corev1.Service) { s.Name, s.Spec.Ports = "talks", ports })
	for _, family := range w.service.Spec.IPFamilies {
		slice := newSlice(w.service, family, "10.77.0.1", "fd77::1")
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: ptr.To("talk"), Port: ptr.To(int32(talkPort)), Protocol: ptr.To(corev1.ProtocolTCP)},
			discoveryv1.EndpointPort{Name: ptr.To("talk-udp"), Port: ptr.To(int32(talkPort)), Protocol: ptr.To(corev1.ProtocolUDP)})
		if err := api.Update(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
	}
	x := &talks{world: w}
	for _, addr := range w.addrs {
		for _, network := range []string{"tcp", "udp"} {
			eventually(t, func() error {
				c, err := talk.Open(t.Context(), cluster, network, netip.AddrPortFrom(addr, talkPort))
				if err == nil {
					c.Close()
				}
				return err
			})
		}
	}
	t.Cleanup(x.close)
	return x
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
	var l net.Listener
	var packets []net.PacketConn
	if err := cluster.In(sandbox.ControlHost, func() (err error) {
		if l, err = net.Listen("tcp", fmt.Sprintf(":%d", talkPort)); err != nil {
			return err
		}
		// One for each address: an answer leaves from the one that was asked.
		for _, own := range []string{"10.77.0.1", "fd77::1"} {
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
	go talk.Serve(l)
	for _, c := range packets {
		go talk.ServePackets(c)
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

	cordon(t, a, true)
	b := x.moved(a)
	x.begin(b, idle, steady, packets, 4<<20)
	x.alive("after a cordon", isIdle)
	eventually(t, func() error {
		if got := carriedBy(t, b); got[a] < int32(2*each) {
			return fmt.Errorf("the Agent object of %s says that it carries %v, not %d to %s", b, got, 2*each, a)
		}
		return nil
	})
	eventually(t, func() error { return x.toldKept(t) })

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

// toldKept says whether a Moved event says how many connections were kept.
func (x *talks) toldKept(t *testing.T) error {
	var events corev1.EventList
	if err := api.List(t.Context(), &events, client.InNamespace("default")); err != nil {
		return err
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.InvolvedObject.Name == x.service.Name && e.Reason == "Moved" && strings.Contains(e.Message, "established connections are kept") {
			return nil
		}
	}
	return errors.New("no event says that connections are kept")
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
	if talking == 0 {
		x.t.Error("there were no connections to reset")
	}
}
