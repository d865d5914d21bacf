package failover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/native"
	"fairlead.io/test/kit/daemons"
	"fairlead.io/test/kit/talk"
)

// at says whether each address is answered for by one node alone, this one.
func (x *talks) at(node string) error {
	census := x.asker.census(x.addrs...)
	for _, addr := range x.addrs {
		if macs := census[addr]; len(macs) != 1 || nodeOf(macs[0]) != node {
			return fmt.Errorf("%s is answered for by %v, not by %s alone", addr, macs, node)
		}
	}
	return nil
}

func preferring(node string) []v1alpha1.PreferredNodes {
	return []v1alpha1.PreferredNodes{{Weight: 100, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/hostname": node}}}}
}

// prefer has addresses of the pool of all tests be at a node while it can have them.
func prefer(t *testing.T, node string) {
	t.Helper()
	write := func(ctx context.Context, preferred []v1alpha1.PreferredNodes) error {
		var pool v1alpha1.Pool
		if err := api.Get(ctx, client.ObjectKey{Name: "lan"}, &pool); err != nil {
			return err
		}
		pool.Spec.Advertise.PreferredNodes = preferred
		return api.Update(ctx, &pool)
	}
	t.Cleanup(func() {
		if err := await(context.Background(), time.Minute, func() error { return write(context.Background(), nil) }); err != nil {
			t.Error(err)
		}
	})
	eventually(t, func() error { return write(t.Context(), preferring(node)) })
}

// Connections of Services of all kinds survive a cordon, and the return to the node that is
// preferred. A pool that does not keep connections has them reset, and says so.
func TestConnectionsOfServices(t *testing.T) {
	const a, b = "node1", "node2"
	showLogs(t)
	agentsRun(t, nodes...)
	serveTalks(t)
	for _, node := range nodes {
		serveTalksOn(t, node, addressesAt(node), talk.ServeHere, talk.ServePacketsHere)
	}
	prefer(t, a)
	t.Cleanup(func() { uncordonAll(t) })
	brief := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "brief"}}
	brief.Spec.Addresses = []v1alpha1.Span{"10.77.0.220/32", "fd77::220/128"}
	brief.Spec.AutoAssign = ptr.To(false)
	brief.Spec.Advertise.KeepConnections = &metav1.Duration{}
	brief.Spec.Advertise.PreferredNodes = preferring(a)
	create(t, brief)

	x := &talks{world: &world{t: t, asker: newAsker(t)}}
	t.Cleanup(x.close)
	for name, change := range map[string]func(*corev1.Service){
		"local":    func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
		"affinity": func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
		"ranges":   func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.77.0.100/32", "fd77::100/128"} },
	} {
		s := newService(t, name, change, func(s *corev1.Service) { s.Spec.Ports = talkPorts })
		leadToTalks(t, s)
		x.addrs = append(x.addrs, addressesOf(t, s)...)
	}
	short := newService(t, "short", func(s *corev1.Service) {
		s.Spec.Ports, s.Annotations = talkPorts, map[string]string{native.AnnotationPool: brief.Name}
	})
	leadToTalks(t, short)
	broken := &talks{world: &world{t: t, asker: x.asker, service: short, addrs: addressesOf(t, short)}}
	t.Cleanup(broken.close)

	const idle, steady, packets = 3, 3, 2
	isIdle := func(i int) bool { return i%(idle+steady+packets+1) < idle }
	for _, of := range []*talks{x, broken} {
		eventually(t, func() error { return of.at(a) })
		of.forwarded()
		of.answered()
		of.begin(a, idle, steady, packets, 0)
		of.alive("in the beginning", isIdle)
	}
	x.ownedBy(b)
	for _, of := range []*talks{x, broken} {
		eventually(t, func() error { return of.at(b) })
	}
	x.alive("after a cordon", isIdle)
	x.begin(b, idle, steady, packets, 0)
	broken.allReset(isIdle)
	eventually(t, func() error {
		messages, err := broken.movedEvents(short, a)
		switch {
		case err != nil:
			return err
		case len(messages) < len(broken.addrs):
			return fmt.Errorf("%d events about moves", len(messages))
		case !strings.HasSuffix(messages[0], " Established connections are not kept: the limit is 0."):
			t.Fatalf("an event says: %s", messages[0])
		}
		return nil
	})

	for _, node := range nodes {
		cordon(t, node, false)
	}
	eventually(t, func() error { return x.at(a) })
	x.alive("after the return to the node that is preferred", isIdle)
	x.begin(a, 1, 1, 1, 0)
	x.unbroken("in the end")
	x.lostFew()
}

// allReset waits until all connections of TCP are reset: those that talk, and idle ones when they do.
func (x *talks) allReset(idle func(int) bool) {
	x.t.Helper()
	for i, c := range x.open {
		if c.UDP {
			continue
		}
		if idle(i) {
			_ = c.Say(64)
		}
		eventually(x.t, func() error {
			if c.Err() == nil {
				return errors.New("a connection goes on that is not kept")
			}
			return nil
		})
		if !c.Reset() {
			x.t.Errorf("a connection that is not kept is not reset: %v", c.Err())
		}
	}
}

// Somebody flushes all tables of nftables on a node that hands packets to another one.
func TestConnectionsSurviveFlush(t *testing.T) {
	x := newTalks(t)
	t.Cleanup(func() { uncordonAll(t) })
	a := x.settled()
	for _, addr := range x.addrs {
		for range 10 {
			c, err := talk.Open(t.Context(), cluster, "tcp", portAt(addr))
			if err != nil {
				t.Fatal(err)
			}
			x.open = append(x.open, c)
		}
	}
	cordon(t, a, true)
	b := x.moved(a)
	all := func(int) bool { return true }
	x.alive("after a cordon", all)
	onHost(t, b, "nft", "flush ruleset")
	flushed := time.Now()
	eventually(t, func() error {
		maps, err := cluster.Exec(t.Context(), b, "nft", "list table netdev fairlead-carried")
		if n := strings.Count(string(maps), fmt.Sprintf(" . %d ", talkPort)); err != nil || n < len(x.open) {
			return fmt.Errorf("%d of %d connections are in the kernel: %w", n, len(x.open), err)
		}
		return nil
	})
	if took := time.Since(flushed); took > 5*time.Second {
		t.Errorf("it took %v until packets were handed on again", took)
	}
	x.alive("after a flush", all)
	restartProxy(t, b)
}

// iptablesHealth is where kube-proxy in mode iptables says that it is well: the other one, which
// stands still, has the usual port.
const iptablesHealth = "127.0.0.1:10266"

// useIptables replaces kube-proxy on all nodes by one in mode iptables, with agents that ask it,
// until what it returns is called.
func useIptables(t *testing.T) (restore func()) {
	t.Helper()
	agentsStop(t, nodes...)
	var proxies []*exec.Cmd
	restore = func() {
		iptables = false
		for _, node := range nodes {
			if p := running[node]; p != nil && p.alive() {
				p.kill(t)
			}
			signalProxy(t, node, "STOP")
			onHost(t, node, "nft", "flush ruleset")
			signalProxy(t, node, "KILL") // the node starts its own again
		}
		for _, p := range proxies { // nsenter, which stops with its child
			_ = p.Process.Signal(syscall.SIGCONT)
			_ = p.Wait()
		}
		for _, node := range nodes {
			proxyRuns(t, node)
		}
	}
	iptables = true
	for _, node := range nodes {
		stopProxy(t, node)
		for _, family := range []string{"ip", "ip6"} {
			onHost(t, node, "nft", "add table "+family+" kube-proxy; delete table "+family+" kube-proxy")
		}
		command := onHost(t, node, "sh", "-c", `for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline | grep "^[^ ]*/kube kube-proxy " && break; done`)
		command = strings.Replace(command, "--proxy-mode=nftables", "--proxy-mode=iptables", 1)
		args := append(strings.Fields(command), "--healthz-bind-address="+iptablesHealth, "--metrics-bind-address=127.0.0.1:10269")
		cmd, err := cluster.ExecCommand(context.Background(), node, args...)
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		proxies = append(proxies, cmd)
	}
	for _, node := range nodes { // addresses move from a node without it to others
		eventually(t, func() error {
			_, err := daemons.Get(t.Context(), cluster, node, iptablesHealth, "/healthz")
			return err
		})
	}
	for _, node := range nodes {
		running[node] = launch(t, node, "--proxy-health-url=http://"+iptablesHealth+"/healthz")
	}
	return restore
}

// Established connections survive moves also with kube-proxy in mode iptables.
func TestConnectionsSurviveMovesWithIptables(t *testing.T) {
	const idle, steady, packets = 20, 10, 3
	showLogs(t)
	defer useIptables(t)()
	x := newTalks(t)
	defer x.close()
	t.Cleanup(func() { uncordonAll(t) })
	isIdle := func(i int) bool { return i%(idle+steady+packets+1) < idle }
	a := x.settled()
	x.begin(a, idle, steady, packets, 4<<20)
	x.alive("in the beginning", isIdle)
	connections := connecting(t, x.addrs...)
	cordon(t, a, true)
	b := x.moved(a)
	x.begin(b, idle, steady, packets, 0)
	x.alive("after a cordon", isIdle)
	if failed := beyondHandOver(connections()); len(failed) > 0 {
		t.Errorf("new connections failed: %v", failed)
	}
	x.ownedBy(a)
	eventually(t, func() error { return x.at(a) })
	x.alive("after the return", isIdle)
	x.lostFew()
	// A node with connections dies.
	if err := cluster.Cut(b); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cluster.Heal(b) }()
	x.reset(b, time.Now())
}

func portAt(addr netip.Addr) netip.AddrPort { return netip.AddrPortFrom(addr, talkPort) }
