package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
	"fairlead.io/sandbox"
	"fairlead.io/sandbox/router"
	"fairlead.io/test/kit/client"
)

const (
	// busyProcesses compete with agents for the CPU, for so long.
	busyProcesses = 64
	busyTime      = 30 * time.Second
	// bfdMultiplier is how many packets of BFD may be lost.
	bfdMultiplier = 3
	// settle is how long connections are watched after something has happened.
	settle = 3 * time.Second
)

// bfdIntervals in milliseconds, with how many false alarms are wanted: -1 is just reported.
var bfdIntervals = []struct{ ms, alarms int }{{50, -1}, {300, 0}}

// routed is a LAN with routers.
type routed struct {
	*lan
	fib *fib
}

// bgpNodes: what routers, and clients behind them, see of nodes that announce by BGP.
func bgpNodes(ctx context.Context, s settings) (rows []Row, err error) {
	if err := s.lan.down(ctx); err != nil { // of the groups before
		return nil, err
	}
	*s.lan = lan{}
	l := &routed{lan: &lan{routers: sandbox.RoutersFRR, pools: map[string][]v1alpha1.Span{}}}
	defer func() {
		l.Tell(&err)
		err = errors.Join(err, l.down(ctx))
	}()
	if err := l.open(ctx, s); err != nil {
		return nil, err
	}
	defer l.fib.close()
	for _, measure := range []func(context.Context, settings) ([]Row, error){l.publishing, l.cables, l.seamless, l.bfdCost, l.alarms} {
		more, err := measure(ctx, s)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// open starts the cluster, agents that announce to the routers, and a look at FRR's kernel.
func (l *routed) open(ctx context.Context, s settings) error {
	if err := l.up(ctx, s); err != nil {
		return err
	}
	for _, crd := range charts.MetalLBCRDs() {
		if err := l.api.Create(ctx, crd); err != nil {
			return err
		}
	}
	text, err := os.ReadFile("examples/bgp.yaml")
	if err != nil {
		return err
	}
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		err := pollFor(ctx, time.Minute, "the API server takes "+o.GetName(), 100*time.Millisecond, func() (bool, error) {
			return l.api.Create(ctx, o.DeepCopy()) == nil, ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	if l.fib, err = watchFIB(ctx, l.Cluster); err != nil {
		return err
	}
	if err := l.Run(ctx, l.nodes...); err != nil {
		return err
	}
	return l.established(ctx)
}

// established waits until all nodes have sessions with both routers.
func (l *routed) established(ctx context.Context) error {
	return pollFor(ctx, time.Minute, "all sessions are established", 100*time.Millisecond, func() (bool, error) {
		n, _, err := l.sessions(ctx)
		return n == 2*len(l.nodes), err
	})
}

// sessions counts those that are established, and how many there were since the start.
func (l *routed) sessions(ctx context.Context) (now, ever int, err error) {
	var list v1alpha1.AgentList
	if err := l.api.List(ctx, &list); err != nil {
		return 0, 0, err
	}
	for _, a := range list.Items {
		for _, p := range a.Status.Peers {
			if p.State == "Established" {
				now++
			}
			ever += int(p.Established)
		}
	}
	return now, ever, nil
}

// prefixes is how many the session with the fewest has announced.
func (l *routed) prefixes(ctx context.Context) (least int, err error) {
	var list v1alpha1.AgentList
	if err := l.api.List(ctx, &list); err != nil {
		return 0, err
	}
	least = math.MaxInt
	for _, a := range list.Items {
		for _, p := range a.Status.Peers {
			least = min(least, int(p.Prefixes))
		}
	}
	return least, nil
}

// forwards sends when kube-proxy of a node first has rules for an address.
func (l *routed) forwards(ctx context.Context, addr netip.Addr) <-chan time.Time {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	first := make(chan time.Time, len(l.nodes)+1)
	var looking sync.WaitGroup
	for _, node := range l.nodes {
		looking.Go(func() {
			_ = l.Cluster.In(node, func() error {
				for ctx.Err() == nil {
					if has, _ := nft.Forwards(map[netip.Addr][]lb.Port{addr: {{Protocol: string(corev1.ProtocolTCP), Number: 80}}}); has[addr] {
						first <- time.Now()
						cancel()
						return nil
					}
					if err := pause(ctx, 5*time.Millisecond); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	go func() {
		looking.Wait()
		first <- time.Now() // or nobody has them
		cancel()
	}()
	return first
}

// cables: how long FRR leads packets to a node whose cable is out.
func (l *routed) cables(ctx context.Context, s settings) (rows []Row, err error) {
	addrs, err := l.web(ctx, "cable")
	if err != nil {
		return nil, err
	}
	node := l.nodes[len(l.nodes)-1]
	hop := "10.77.0.13"
	for _, interval := range bfdIntervals {
		if err := l.detect(ctx, interval.ms); err != nil {
			return nil, err
		}
		var took, back []float64
		for range 5 * s.rounds {
			if err := l.leads(ctx, addrs[0].Addr(), hop, true); err != nil {
				return nil, err
			}
			if err := pause(ctx, calm); err != nil {
				return nil, err
			}
			began := time.Now()
			if err := l.Cluster.Cut(node); err != nil {
				return nil, err
			}
			seen, err := l.fib.await(ctx, addrs[0].Addr().String(), began, func(line string) bool { return !strings.Contains(line, hop) })
			if err != nil {
				return nil, err
			}
			took = append(took, milliseconds(seen.Sub(began)))
			began = time.Now()
			if err := l.Cluster.Heal(node); err != nil {
				return nil, err
			}
			if seen, err = l.fib.await(ctx, addrs[0].Addr().String(), began, func(line string) bool { return strings.Contains(line, hop+" ") }); err != nil {
				return nil, err
			}
			back = append(back, milliseconds(seen.Sub(began)))
			if err := l.established(ctx); err != nil {
				return nil, err
			}
		}
		limit := 1.3*float64(interval.ms*bfdMultiplier) + 60
		rows = append(rows, info(fmt.Sprintf("cable cut, BFD %d ms × %d, to FRR's kernel, %d times, 95 %%", interval.ms, bfdMultiplier, len(took)), quantile(took, 0.95), "ms").atMost(limit),
			info(fmt.Sprintf("cable back, BFD %d ms × %d, to FRR's kernel, %d times, 95 %%", interval.ms, bfdMultiplier, len(back)), quantile(back, 0.95), "ms").atMost(1000))
	}
	return rows, nil
}

// seamless: connections of a client behind the routers that fail while agents end, are
// replaced, or crash.
func (l *routed) seamless(ctx context.Context, s settings) (rows []Row, err error) {
	addrs, err := l.web(ctx, "seamless")
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		if !e.seamless {
			continue
		}
		var made, failed int
		for range 2 * s.rounds {
			if err := pause(ctx, e.calm); err != nil {
				return nil, err
			}
			connections := client.Connect(l.Cluster, addrs...)
			err := e.strike(ctx, l.lan, l.nodes[0])
			if err == nil {
				err = pause(ctx, settle)
			}
			for _, r := range connections.Stop() {
				made, failed = made+len(r.Made), failed+len(r.Failed)
			}
			if err == nil && e.mend != nil {
				err = e.mend(ctx, l.lan, l.nodes[0])
			}
			if err == nil {
				err = l.established(ctx)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.name, err)
			}
		}
		rows = append(rows, info(fmt.Sprintf("%s: failed connections of %d, %d times", e.name, made+failed, 2*s.rounds), float64(failed), "").exactly(0))
	}
	return rows, nil
}

// bfdCost: what the agent of a node takes more with BFD, for each session.
func (l *routed) bfdCost(ctx context.Context, _ settings) (rows []Row, err error) {
	share := func() (float64, error) {
		if err := l.established(ctx); err != nil {
			return 0, err
		}
		if err := pause(ctx, calm); err != nil {
			return 0, err
		}
		pid := l.Agents[l.nodes[0]].PID
		before, err := cpuSeconds(pid)
		if err != nil {
			return 0, err
		}
		if err := pause(ctx, watched); err != nil {
			return 0, err
		}
		after, err := cpuSeconds(pid)
		return (after - before) / watched.Seconds() * 100, err
	}
	if err := l.profile(ctx, ""); err != nil {
		return nil, err
	}
	without, err := share()
	if err != nil {
		return nil, err
	}
	if err := l.profile(ctx, "fast"); err != nil {
		return nil, err
	}
	for _, interval := range bfdIntervals {
		if err := l.detect(ctx, interval.ms); err != nil {
			return nil, err
		}
		with, err := share()
		if err != nil {
			return nil, err
		}
		rows = append(rows, info(fmt.Sprintf("BFD %d ms × %d, of a core, for each session", interval.ms, bfdMultiplier), max(0, with-without)/2, "%"))
	}
	return rows, nil
}

// alarms: sessions that are lost though nothing but the CPU is missing.
func (l *routed) alarms(ctx context.Context, _ settings) (rows []Row, err error) {
	for _, interval := range bfdIntervals {
		if err := errors.Join(l.detect(ctx, interval.ms), l.established(ctx)); err != nil {
			return nil, err
		}
		_, before, err := l.sessions(ctx)
		if err != nil {
			return nil, err
		}
		busy, free := context.WithCancel(ctx)
		var running sync.WaitGroup
		for range busyProcesses {
			running.Go(func() { _ = exec.CommandContext(busy, "sh", "-c", "while :; do :; done").Run() })
		}
		err = pause(ctx, busyTime)
		free()
		running.Wait()
		if err := errors.Join(err, l.established(ctx)); err != nil {
			return nil, err
		}
		_, after, err := l.sessions(ctx)
		if err != nil {
			return nil, err
		}
		row := info(fmt.Sprintf("BFD %d ms × %d beside %d busy processes for %s, sessions lost of %d", interval.ms, bfdMultiplier, busyProcesses, busyTime, 2*len(l.nodes)), float64(after-before), "")
		if interval.alarms >= 0 {
			row = row.exactly(float64(interval.alarms))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// web makes a Service, and returns its addresses when FRR leads to all nodes.
func (l *routed) web(ctx context.Context, name string) ([]netip.AddrPort, error) {
	service, err := l.newService(ctx, metav1.NamespaceDefault, name)
	if err != nil {
		return nil, err
	}
	addrs, err := l.addresses(ctx, service)
	if err != nil {
		return nil, err
	}
	return addrs, l.leads(ctx, addrs[0].Addr(), "10.77.0.13", true)
}

// leads waits until FRR's kernel leads an address to a next hop, or not.
func (l *routed) leads(ctx context.Context, addr netip.Addr, hop string, yes bool) error {
	return pollFor(ctx, time.Minute, fmt.Sprintf("FRR leads %s to %s: %t", addr, hop, yes), 50*time.Millisecond, func() (bool, error) {
		out, err := l.Cluster.Exec(ctx, sandbox.FRRHost, "ip", "route", "show", addr.String())
		return strings.Contains(string(out), hop+" ") == yes, err
	})
}

// detect has both sides of all sessions use an interval.
func (l *routed) detect(ctx context.Context, ms int) error {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("metallb.io/v1beta1")
	o.SetKind("BFDProfile")
	o.SetNamespace("metallb-system")
	o.SetName("fast")
	if err := l.api.Patch(ctx, o, kube.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"receiveInterval":%d,"transmitInterval":%[1]d}}`, ms))); err != nil {
		return err
	}
	argv := router.FRR{Dir: l.Cluster.StateDir + "/" + sandbox.FRRHost}.Vtysh("-c", "configure terminal", "-c", "bfd", "-c", "profile fast",
		"-c", fmt.Sprintf("receive-interval %d", ms), "-c", fmt.Sprintf("transmit-interval %d", ms))
	_, err := l.Cluster.Exec(ctx, sandbox.FRRHost, argv...)
	return err
}

// profile changes which profile both peers have, if any.
func (l *routed) profile(ctx context.Context, name string) error {
	for _, peer := range []string{sandbox.FRRHost, sandbox.BIRDHost} {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("metallb.io/v1beta2")
		o.SetKind("BGPPeer")
		o.SetNamespace("metallb-system")
		o.SetName(peer)
		if err := l.api.Patch(ctx, o, kube.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"bfdProfile":%q}}`, name))); err != nil {
			return err
		}
	}
	return nil
}

// fib is the kernel of the router with FRR, as "ip monitor" shows it.
type fib struct {
	stop func()

	mu    sync.Mutex
	lines []fibLine
	more  chan struct{} // closed with the next line
}

type fibLine struct {
	at   time.Time
	text string
}

func watchFIB(ctx context.Context, c *sandbox.Cluster) (*fib, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd, err := c.ExecCommand(ctx, sandbox.FRRHost, "ip", "-o", "monitor", "route")
	if err != nil {
		cancel()
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	f := &fib{more: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f.mu.Lock()
			f.lines = append(f.lines, fibLine{time.Now(), lines.Text()})
			close(f.more)
			f.more = make(chan struct{})
			f.mu.Unlock()
		}
		_ = cmd.Wait()
	})
	f.stop = func() {
		cancel()
		reading.Wait()
	}
	return f, nil
}

func (f *fib) close() { f.stop() }

// await returns when the first line came about a destination, since a moment, that is as
// wanted.
func (f *fib) await(ctx context.Context, destination string, since time.Time, wanted func(string) bool) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("nothing happens to the route to %s", destination))
	defer cancel()
	for {
		f.mu.Lock()
		lines, more := f.lines, f.more
		f.mu.Unlock()
		for _, line := range lines {
			if line.at.After(since) && strings.Contains(line.text+" ", destination+" ") && (wanted == nil || wanted(line.text)) {
				return line.at, nil
			}
		}
		select {
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		case <-more:
		}
	}
}
