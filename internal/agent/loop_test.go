package agent

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

// running is a loop of node a that runs, without root, in virtual time.
type running struct {
	*agent
	t         *testing.T
	cluster   *fakeCluster
	group     *fakeGroup
	kernel    *link.Fake
	tables    *nft.Fake
	announcer *fakeAnnouncer
	end       context.CancelFunc // tells the loop to end
	ended     chan struct{}
}

// nodeObject is a Node.
func nodeObject(name, address string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

// newCluster has the nodes a and b, and a Service with an address, served on b.
func newCluster() *fakeCluster {
	web := serviceOf("web", 1, "", 80, vip.String())
	web.Spec.Type = corev1.ServiceTypeLoadBalancer
	c := &fakeCluster{}
	c.put(nodeObject("a", "192.0.2.1"), nodeObject("b", "192.0.2.2"), web, sliceOf("web", "web-1", "b"))
	for _, name := range []string{"a", "b"} {
		c.put(&v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return c
}

// start runs the loop of node a; change changes what it is made of, claims are those of
// vip that it finds. It must be called in a bubble of synctest.
func start(t *testing.T, cluster *fakeCluster, others []string, change func(*parts), claims ...member.Claim) *running {
	t.Helper()
	p := fakeParts("a", cluster)
	if change != nil {
		change(&p)
	}
	background, cancel := context.WithCancel(context.Background())
	a := newAgent(background, p)
	r := &running{agent: a, t: t, cluster: cluster, group: newFakeGroup("a", others...), kernel: p.kernel.(*link.Fake), tables: p.tables.(*nft.Fake),
		announcer: p.announcer.(*fakeAnnouncer), ended: make(chan struct{})}
	a.group = r.group
	r.group.others[member.Addr(vip)] = claims
	for _, o := range cluster.objects {
		if kindOf(o) == "Agent" {
			a.known.add(o.GetName())
		}
	}
	a.inherit(background, time.Now())
	r.changed(cluster.objects...)
	a.begin(background, time.Now())
	a.runCarrying()
	a.started, a.allDirty, a.patience = true, true, time.Now().Add(peersPatience)
	ctx, end := context.WithCancel(background)
	r.end = end
	go func() {
		defer close(r.ended)
		a.loop(ctx)
	}()
	t.Cleanup(func() {
		a.hasSuccessor = func() bool { return true }
		end()
		<-r.ended
		cancel()
		a.close()
		a.running.Wait()
	})
	return r
}

// changed has the loop read objects again.
func (r *running) changed(objects ...client.Object) {
	for _, o := range objects {
		for kind, note := range always {
			if kindOf(kind) == kindOf(o) {
				r.inbox.add(func(c *changes) { note(c, o) })
			}
		}
	}
}

// after waits for some time, and then until the loop has nothing to do.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// has checks whether this node answers for the address: in the kernel, behind a
// fence that stands, announced and claimed.
func (r *running) has(what string, want bool) {
	r.t.Helper()
	kernel := false
	for _, own := range r.kernel.Ours() {
		kernel = kernel || own == link.Address{Interface: "eth0", Addr: vip}
	}
	c, _ := r.group.own(vip)
	answers, announces := r.tables.Answers("eth0", vip), r.announcer.announces(vip, "eth0")
	if kernel != want || answers != want || announces != want || c.Up != want {
		r.t.Errorf("%s: on the interface %t, answered %t, announced %t, claimed %t; want %t", what, kernel, answers, announces, c.Up, want)
	}
}

// events returns the reasons of the events that wait to be written.
func (r *running) events() (out []string) {
	r.reporter.mu.Lock()
	defer r.reporter.mu.Unlock()
	for _, e := range r.reporter.events {
		out = append(out, e.Reason)
	}
	r.reporter.events = nil
	return out
}

// A node alone takes an address that is free, with its ports, and lets it go with
// its Service.
func TestLoopTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), nil, nil)
		after(5 * time.Second)
		r.has("taken", true)
		same(t, "probed", r.announcer.probes, []netip.Addr{vip})
		if v, _ := r.tables.VIP(vip); len(v.Ports) != 1 || v.Ports[0].Number != 80 {
			t.Errorf("ports %v", v.Ports)
		}
		same(t, "events", r.events(), "[Announced]")
		after(time.Minute)
		r.has("kept", true)

		web := serviceOf("web", 1, "", 80)
		r.cluster.delete(web)
		r.changed(web)
		after(time.Second)
		r.has("gone", false)
		if _, known := r.tables.VIP(vip); known {
			t.Error("still in the tables")
		}
	})
}

// An address of a node that dies is taken over at once, without a probe.
func TestLoopTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), []string{"b", "c"}, nil, member.Claim{Key: member.Addr(vip), Node: "b", Epoch: 4, Up: true})
		after(5 * time.Second)
		r.has("b has it", false)
		// The endpoint is there; b is still Ready in the API, and dead.
		r.group.die("b")
		synctest.Wait()
		r.has("taken over", true)
		if c, _ := r.group.own(vip); c.Epoch != 5 {
			t.Errorf("claimed with epoch %d, want 5", c.Epoch)
		}
		same(t, "probed", len(r.announcer.probes), 0)
		same(t, "events", r.events(), "["+string(lb.Moved)+"]")
	})
}

// A node that leaves keeps its addresses until another one is up, and then removes
// everything.
func TestLoopHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), []string{"b"}, nil)
		mine := claimedBy(r, "a")
		after(5 * time.Second)
		r.has("taken", true)
		r.end()
		after(2 * time.Second)
		r.has("the other is not up yet", true)
		r.group.claim(vip, member.Claim{Key: member.Addr(vip), Node: "b", Epoch: mine() + 1, Up: true})
		<-r.ended
		r.has("handed over", false)
		if !r.tables.Deleted() || !r.group.left || !r.retired {
			t.Error("something is left behind")
		}
	})
}

// claimedBy has the address be a node's by preference, whatever the hash says, and
// returns how to ask for the epoch of its claim.
func claimedBy(r *running, node string) func() uint64 {
	r.group.claim(vip, member.Claim{Key: member.Addr(vip), Node: node, Epoch: 1, Up: true})
	n := nodeObject("b", "192.0.2.2")
	n.Spec.Unschedulable = node != "b"
	r.cluster.put(n)
	r.changed(n)
	return func() uint64 {
		c, _ := r.group.own(vip)
		return c.Epoch
	}
}

// A node whose fence has expired gives up everything at once, and asks again.
func TestLoopLosesItsFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), nil, nil)
		after(5 * time.Second)
		r.has("taken", true)
		if err := r.tables.Revoke("eth0"); err != nil { // it has expired meanwhile
			t.Fatal(err)
		}
		after(renewPeriod)
		r.has("fence lost", false)
		after(settlePause / 2)
		r.has("settling", false)
		after(settlePause)
		r.has("taken again", true)
	})
}

// An address that another host uses is left to it until it is free.
func TestLoopConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), nil, nil)
		after(5 * time.Second)
		r.has("taken", true)
		r.events()
		r.announcer.use(vip, stranger)
		synctest.Wait()
		r.has("left to the other host", false)
		if c, ok := r.group.own(vip); !ok || c.Up {
			t.Error("the claim must stay, so that no other node runs into the same")
		}
		same(t, "events", r.events(), "["+string(lb.AddressConflict)+"]")
		after(2 * rivalRetry)
		r.has("still used", false)
		same(t, "events", r.events(), "[]")
		r.announcer.use(vip, net.HardwareAddr(nil))
		after(2 * rivalRetry)
		r.has("free again", true)
	})
}

// An agent that follows another one in time goes on with what that had; one that is
// late removes it.
func TestLoopInherits(t *testing.T) {
	for name, c := range map[string]struct {
		late time.Duration
		want bool
	}{"in time": {100 * time.Millisecond, true}, "late": {2 * nft.FenceTime, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kernel, tables := link.NewFake(eth0("a")), &nft.Fake{}
				if err := errors.Join(tables.Grant("eth0"), tables.Update(map[netip.Addr]*nft.VIP{vip: {Interfaces: []string{"eth0"}}}), kernel.Add("eth0", vip)); err != nil {
					t.Fatal(err)
				}
				after(c.late)
				cluster := newCluster()
				var claims []member.Claim
				if !c.want {
					claims = []member.Claim{{Key: member.Addr(vip), Node: "b", Epoch: 9, Up: true}}
				}
				r := start(t, cluster, []string{"b"}, func(p *parts) { p.kernel, p.tables = kernel, tables.Reopen() }, claims...)
				synctest.Wait()
				after(time.Minute)
				r.has("inherited", c.want)
				same(t, "probed", len(r.announcer.probes), 0)
				if c.want {
					same(t, "events", r.events(), "[]")
				}
			})
		})
	}
}

// A node that was lost and has taken the address keeps it when it is a member again,
// although its claim arrives a moment after it.
func TestLoopLostNodeIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), []string{"b"}, nil)
		claimedBy(r, "a")
		after(5 * time.Second)
		r.has("taken", true)
		b := nodeObject("b", "192.0.2.2")
		r.cluster.put(b)
		r.changed(b)
		after(time.Second)
		meta := r.group.members["b"]
		r.group.die("b")
		after(time.Second)
		r.announcer.use(vip, macs["b"])
		synctest.Wait()
		r.has("left to b", false)

		r.group.change(func() { r.group.members["b"] = meta })
		after(settlePause / 10)
		r.has("b is back", false)
		r.group.claim(vip, member.Claim{Key: member.Addr(vip), Node: "b", Epoch: 9, Up: true})
		after(time.Minute)
		r.has("b has claimed it", false)
	})
}

// What the kernel refuses is neither announced nor claimed, and tried again.
func TestLoopKernelRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), nil, func(p *parts) {
			began := time.Now()
			p.kernel.(*link.Fake).Fail = func(verb, _ string, _ netip.Addr) error {
				if verb == "add" && time.Since(began) < 10*time.Second {
					return errors.New("no buffer space available")
				}
				return nil
			}
		})
		after(8 * time.Second)
		if c, _ := r.group.own(vip); c.Up || len(r.kernel.Ours()) > 0 || r.announcer.announces(vip, "eth0") {
			t.Error("announced or claimed without being on the interface")
		}
		after(refusalRetry)
		r.has("tried again", true)
	})
}

// What other programs do to our addresses and tables is put right.
func TestLoopRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), nil, nil)
		after(5 * time.Second)
		r.kernel.Drop("eth0", vip)
		synctest.Wait()
		r.has("address removed", true)
		r.tables.Tamper()
		synctest.Wait()
		r.has("tables emptied", true)
	})
}

// A link that goes down takes the address with it; the node takes it again when the
// link has been up for a while.
func TestLoopLinkDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), nil, nil)
		after(5 * time.Second)
		down := eth0("a")
		down.Up = false
		r.kernel.SetLinks(down)
		synctest.Wait()
		r.has("down", false)
		r.kernel.SetLinks(eth0("a"))
		synctest.Wait()
		r.has("just up", false)
		after(2 * settlePause)
		r.has("up", true)
	})
}

// The loop ends with an error when interfaces cannot be followed any more.
func TestLoopWithoutKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), nil, nil)
		after(time.Second)
		gone := errors.New("netlink is gone")
		r.kernel.End(gone)
		<-r.ended
		if !errors.Is(r.failure, gone) {
			t.Errorf("ended with %v", r.failure)
		}
	})
}
