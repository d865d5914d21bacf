package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/carrying"
	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/moves"
	"fairlead.io/internal/nft"
)

// fakeTracking is a kernel that tracks connections, and a LAN on which all nodes answer.
type fakeTracking struct {
	mu    sync.Mutex
	conns []conntrack.Conn
}

func (f *fakeTracking) List(func(netip.Addr) bool, func(conntrack.Conn) conntrack.Rank) (out []conntrack.Tracked, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		out = append(out, conntrack.Tracked{Conn: c})
	}
	return out, nil
}

func (f *fakeTracking) set(conns ...conntrack.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = conns
}

func (f *fakeTracking) Watch(ctx context.Context, _ func(netip.Addr) bool, changes func([]conntrack.Change)) error {
	changes([]conntrack.Change{{Lost: true}})
	<-ctx.Done()
	return nil
}

func (f *fakeTracking) Ask(_ context.Context, _ string, _, _ netip.Addr, at net.HardwareAddr) net.HardwareAddr {
	if at == nil {
		return macs["b"]
	}
	return at
}

func (f *fakeTracking) Close() {}

// startCarrying starts the loop of node a, which keeps connections.
func startCarrying(t *testing.T, grace time.Duration, claims ...member.Claim) (*running, *nft.FakeCarrier, *fakeTracking) {
	t.Helper()
	carrier, tracking := &nft.FakeCarrier{}, &fakeTracking{}
	r := start(t, newCluster(), []string{"b"}, func(p *parts) {
		log := slog.New(slog.DiscardHandler)
		p.carrying = carrying.New(carrying.Options{Log: log, Carrier: carrier, Connections: tracking, LAN: tracking})
		p.keep, p.grace = 15*time.Minute, grace
		eth0 := eth0("a")
		eth0.Prefixes = append(eth0.Prefixes, netip.MustParsePrefix("fe80::a/64"))
		p.kernel = link.NewFake(eth0)
	}, claims...)
	return r, carrier, tracking
}

func visit(port uint16) conntrack.Conn {
	return conntrack.Conn{Protocol: 6, Client: netip.AddrPortFrom(netip.MustParseAddr("198.51.100.1"), port), Service: netip.AddrPortFrom(vip, 80)}
}

// lastWant returns what b was last asked for.
func (r *running) lastWant() (w moves.Want, ok bool) {
	r.group.mu.Lock()
	defer r.group.mu.Unlock()
	for _, l := range r.group.posted {
		if m, err := moves.Decode(l.Body); err == nil {
			if found, is := m.(moves.Want); is {
				w, ok = found, true
			}
		}
	}
	return w, ok
}

// An address that is handed over waits for the list of the former node's connections, but not
// for long. The event waits a little longer.
func TestLoopKeepsConnections(t *testing.T) {
	for name, c := range map[string]struct {
		lists bool
		after time.Duration // the address waits
		event string
	}{
		"listed":      {true, 0, " 2 established connections are kept."},
		"listed late": {true, preparePatience + renewPeriod, " 2 established connections are kept."},
		"not listed":  {false, preparePatience + renewPeriod, " Established connections are not kept: the agent of node b did not list them."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, carrier, _ := startCarrying(t, 0, member.Claim{Key: member.Addr(vip), Node: "b", Epoch: 4, Up: true})
				after(5 * time.Second)
				r.has("b has it", false)
				r.events()
				n := nodeObject("b", "192.0.2.2")
				n.Spec.Unschedulable = true
				r.cluster.put(n)
				r.changed(n)
				after(50 * time.Millisecond)
				r.has("the list is not there", false)
				w, ok := r.lastWant()
				if !ok || w.Addresses[vip] != 5 {
					t.Fatalf("b was asked for %+v", w)
				}
				if c.after > 0 {
					after(c.after)
					r.has("taken", true)
					same(t, "events while it is not known what is kept", r.events(), "[]")
				}
				if c.lists {
					r.group.write("b", moves.Page{Stream: w.Stream, Series: 1, Neighbours: []moves.Neighbour{{Addr: netip.MustParseAddr("192.0.2.2"), MAC: [6]byte(macs["b"])}},
						Parts: []moves.Part{{Address: vip, Epoch: 5, Whole: true, Done: true, Released: -1, Add: []conntrack.Conn{visit(1000), visit(1001)}}}}.Encode())
					after(50 * time.Millisecond)
				} else {
					after(keptPatience)
				}
				r.has("taken", true)
				if via, ok := carrier.Receive("eth0", stranger, visit(1000)); ok != c.lists || c.lists && via.String() != "192.0.2.2" {
					t.Errorf("its packets go to %s, %t", via, ok)
				}
				if got := r.messages(); !strings.HasSuffix(got, c.event) || strings.Count(got, "\n") > 0 {
					t.Errorf("events %q, not one that ends in %q", got, c.event)
				}
				after(5 * time.Second)
				reported := 0
				if c.lists {
					reported = 1
				}
				r.reporter.mu.Lock()
				defer r.reporter.mu.Unlock()
				if carried := r.reporter.status.Carried; len(carried) != reported || c.lists && (carried[0].Node != "b" || carried[0].Connections != 2) {
					t.Errorf("the Agent object says %+v", carried)
				}
			})
		})
	}
}

// left is a node as an earlier agent has left it: with an address, and connections of it that
// are handed to node b.
func left(t *testing.T, conns ...conntrack.Conn) (*link.Fake, *nft.Fake, *nft.FakeCarrier) {
	t.Helper()
	kernel, tables, carrier := link.NewFake(eth0("a")), &nft.Fake{}, &nft.FakeCarrier{}
	var carried []nft.Carried
	for _, c := range conns {
		carried = append(carried, nft.Carried{Conn: c, Via: netip.MustParseAddr("192.0.2.2"), Interface: "eth0"})
	}
	_, err := carrier.Prepare([]nft.CarryInterface{{Name: "eth0"}}, []net.HardwareAddr{macs["a"], macs["b"]})
	if err := errors.Join(err, carrier.Update(carried, nil), tables.Grant("eth0"), tables.Update(map[netip.Addr]*nft.VIP{vip: {Interfaces: []string{"eth0"}}}),
		kernel.Add("eth0", vip)); err != nil {
		t.Fatal(err)
	}
	return kernel, tables.Reopen(), carrier.Reopen()
}

// keepingPool is a pool of vip that keeps connections for some time.
func keepingPool(keep time.Duration) *v1alpha1.Pool {
	p := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	p.Spec.Addresses = []v1alpha1.Span{v1alpha1.Span(vip.String() + "/32")}
	p.Spec.Advertise.KeepConnections = &metav1.Duration{Duration: keep}
	return p
}

// An agent that follows another one keeps connections for as long as the pool says, not as its
// own flag does: neither before it has read the Services nor afterwards. A pool that changes its
// mind is heard.
func TestLoopKeepsForAsLongAsThePoolSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kernel, tables, carrier := left(t, visit(1000))
		cluster, tracking := newCluster(), &fakeTracking{}
		cluster.put(keepingPool(time.Hour))
		r := start(t, cluster, []string{"b"}, func(p *parts) {
			p.kernel, p.tables = kernel, tables
			p.carrying = carrying.New(carrying.Options{Log: slog.New(slog.DiscardHandler), Carrier: carrier, Connections: tracking, LAN: tracking})
		})
		for range 300 {
			after(100 * time.Millisecond)
			if _, ok := carrier.Receive("eth0", stranger, visit(1000)); !ok {
				t.Fatal("a connection that the previous agent kept is not kept any more")
			}
		}
		if w, ok := r.lastWant(); !ok || len(w.Addresses) != 1 {
			t.Errorf("b was asked for %+v", w)
		}
		none := keepingPool(0)
		cluster.put(none)
		r.changed(none)
		after(time.Second)
		if _, ok := carrier.Receive("eth0", stranger, visit(1000)); ok {
			t.Error("a connection is kept though the pool does not want it")
		}
	})
}

// Somebody flushes all tables of nftables: connections go on at once.
func TestLoopCarriesAgainAfterAFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kernel, tables, carrier := left(t, visit(1000))
		tracking := &fakeTracking{}
		r := start(t, newCluster(), []string{"b"}, func(p *parts) {
			p.kernel, p.tables, p.keep = kernel, tables, time.Hour
			p.carrying = carrying.New(carrying.Options{Log: slog.New(slog.DiscardHandler), Carrier: carrier, Connections: tracking, LAN: tracking})
		})
		after(5 * time.Second)
		carrier.Tamper()
		r.tables.Tamper()
		synctest.Wait()
		if _, ok := carrier.Receive("eth0", stranger, visit(1000)); !ok {
			t.Error("packets are not handed on after the tables were removed")
		}
	})
}

// messages are those of the events that wait to be written.
func (r *running) messages() string {
	r.reporter.mu.Lock()
	defer r.reporter.mu.Unlock()
	var out []string
	for _, e := range r.reporter.events {
		out = append(out, e.Message)
	}
	return strings.Join(out, "\n")
}

// An agent that ends for good waits for the connections of its node, up to its grace.
func TestLoopAwaitsConnections(t *testing.T) {
	for name, ends := range map[string]bool{"they end": true, "they stay": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, carrier, tracking := startCarrying(t, 40*time.Second)
				mine := claimedBy(r, "a")
				tracking.set(visit(1000))
				after(5 * time.Second)
				r.has("taken", true)
				r.end()
				r.group.write("b", moves.Want{Stream: 7, Addresses: map[netip.Addr]uint64{vip: mine() + 1}}.Encode())
				after(time.Second)
				r.group.claim(vip, member.Claim{Key: member.Addr(vip), Node: "b", Epoch: mine() + 1, Up: true})
				after(5 * time.Second)
				r.has("handed over", false)
				if err := ended(r); err == nil {
					t.Error("the agent does not wait")
				}
				if ends {
					tracking.set()
					after(20 * time.Second)
				} else {
					after(20 * time.Second)
					if err := ended(r); err == nil {
						t.Error("the agent does not wait for its grace")
					}
					after(20 * time.Second)
				}
				if err := ended(r); err != nil {
					t.Error(err)
				}
				if !carrier.Removed() {
					t.Error("tables are left")
				}
			})
		})
	}
}

func ended(r *running) error {
	select {
	case <-r.ended:
		return nil
	default:
		return errors.New("the agent goes on")
	}
}
