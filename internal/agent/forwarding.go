package agent

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/agent/write"
	"fairlead.io/internal/lb"
)

const (
	// forwardingWait is how long the rules of a Service are waited for. A kube-proxy with many
	// Services takes seconds to write them. It is not for ever: something else may forward, and
	// an address is not to be lost because kube-proxy is away.
	forwardingWait = 10 * time.Second
	// forwardingPause is how often is asked, unless the answer takes long.
	forwardingPause = 20 * time.Millisecond
	// healthCheckTimeout: the health check is on this node.
	healthCheckTimeout = 400 * time.Millisecond
)

// forwarding knows whether kube-proxy on this node has rules for addresses that are to be
// announced to routers. Without them the first connections would be refused. Once it has had
// them, they are there: whatever becomes of kube-proxy, the kernel keeps forwarding.
type forwarding struct {
	changed chan struct{}
	// rules says to which addresses the kernel forwards, and whether that is known at all; nil
	// if it never is.
	rules func(map[netip.Addr][]lb.Port) (forwarded map[netip.Addr]bool, known bool)

	// starting: what is here at the start of the agent is taken to be forwarded. An earlier agent
	// may have announced it, and the first table that routers get must have it.
	starting bool

	mu sync.Mutex
	// node has the addresses of this node: kube-proxy's health checks are at one of them, or at
	// all, as its option for NodePorts says.
	node   []netip.Addr
	asked  map[netip.Addr][]*asking
	asking bool // a goroutine does
}

// question is about a Service that is to be reached at an address.
type question struct {
	uid   types.UID
	ports []lb.Port
	// health is the port where kube-proxy says that it has rules for pods on this node, if
	// only these count; 0 if nowhere.
	health uint16
	// other: kube-proxy leaves the Service to another program, whose rules nobody knows.
	other bool
}

type asking struct {
	question
	since time.Time
	ready bool
}

func newForwarding(changed chan struct{}, rules func(map[netip.Addr][]lb.Port) (map[netip.Addr]bool, bool)) *forwarding {
	return &forwarding{changed: changed, rules: rules, starting: true, asked: map[netip.Addr][]*asking{}}
}

// ready returns the Services that can be reached at an address, of those that should be. If
// some cannot yet, it asks, and says so by changed. Services that are not among them are
// forgotten: they are asked about again when they come back.
func (f *forwarding) ready(ctx context.Context, running *sync.WaitGroup, addr netip.Addr, all []question) []types.UID {
	f.mu.Lock()
	defer f.mu.Unlock()
	var now []*asking
	var out []types.UID
	pending := false
	for _, q := range all {
		a := &asking{since: time.Now(), ready: f.starting || q.other || f.rules == nil && q.health == 0}
		if i := slices.IndexFunc(f.asked[addr], func(a *asking) bool { return a.uid == q.uid }); i >= 0 {
			a = f.asked[addr][i]
		}
		a.question = q
		now = append(now, a)
		if a.ready {
			out = append(out, q.uid)
		}
		pending = pending || !a.ready
	}
	f.asked[addr] = now
	if len(now) == 0 {
		delete(f.asked, addr)
	}
	if pending && !f.asking {
		f.asking = true
		running.Go(func() { f.ask(ctx) })
	}
	return out
}

// ask asks until all is ready that was asked for, or ctx ends.
func (f *forwarding) ask(ctx context.Context) {
	client := &http.Client{Timeout: healthCheckTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		began := time.Now()
		ports, healthy := f.pending()
		if ports == nil {
			return
		}
		forwarded, known := map[netip.Addr]bool{}, false
		if f.rules != nil {
			forwarded, known = f.rules(ports)
		}
		for port := range healthy {
			healthy[port] = f.healthy(ctx, client, port)
		}
		if f.answer(func(addr netip.Addr, a *asking) bool {
			return (forwarded[addr] || !known) && (a.health == 0 || healthy[a.health])
		}) {
			write.Wake(f.changed)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(forwardingPause, 4*time.Since(began))): // a fifth of a processor at most
		}
	}
}

// pending returns what is asked for: ports by address, and health checks. If nothing is, the
// asking ends.
func (f *forwarding) pending() (ports map[netip.Addr][]lb.Port, healthy map[uint16]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ports, healthy = map[netip.Addr][]lb.Port{}, map[uint16]bool{}
	for addr, all := range f.asked {
		for _, a := range all {
			if a.ready {
				continue
			}
			ports[addr] = append(ports[addr], a.ports...)
			if a.health != 0 {
				healthy[a.health] = false
			}
		}
	}
	if len(ports) == 0 {
		f.asking = false
		return nil, nil
	}
	return ports, healthy
}

// answer notes what is ready now, or was waited for long enough, and says whether anything is.
func (f *forwarding) answer(ready func(netip.Addr, *asking) bool) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for addr, all := range f.asked {
		for _, a := range all {
			if !a.ready && (ready(addr, a) || time.Since(a.since) >= forwardingWait) {
				a.ready, changed = true, true
			}
		}
	}
	return changed
}

// setNode takes over the addresses of this node.
func (f *forwarding) setNode(addrs []netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.node = addrs
}

// healthy says whether the health check of a Service answers 200, which it does after the rules
// for pods on this node are written.
func (f *forwarding) healthy(ctx context.Context, client *http.Client, port uint16) bool {
	f.mu.Lock()
	addrs := append([]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, f.node...)
	f.mu.Unlock()
	return slices.ContainsFunc(addrs, func(a netip.Addr) bool { return healthyAt(ctx, client, netip.AddrPortFrom(a, port)) })
}

func healthyAt(ctx context.Context, client *http.Client, at netip.AddrPort) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+"/", nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
