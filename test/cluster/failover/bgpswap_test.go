package failover

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairlead.io/test/kit/speaker"
)

// speakers stand for MetalLB's in its native mode, one on each node.
type speakers []*speaker.Speaker

// startSpeakers has all nodes announce a prefix to FRR.
func startSpeakers(t *testing.T, p netip.Prefix) speakers {
	t.Helper()
	var out speakers
	for _, node := range nodes {
		out = append(out, speaker.Start(nodesAS, func(ctx context.Context) (net.Conn, error) {
			return cluster.Dial(ctx, node, "tcp", frrAddress+":179")
		}, p))
	}
	t.Cleanup(out.stop)
	return out
}

// stop ends all of them at once.
func (s speakers) stop() {
	var ending sync.WaitGroup
	for _, one := range s {
		ending.Go(one.Stop)
	}
	ending.Wait()
}

// missing watches from when to when FRR leads a prefix nowhere, until it is stopped.
func (r *routers) missing(p netip.Prefix) (stop func() (from, to time.Time)) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	var from, to time.Time
	watching.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			switch there := len(nextHops(r.ns, p)) > 0; {
			case !there && from.IsZero():
				from = time.Now()
			case !there:
				to = time.Now()
			}
		}
	})
	return func() (time.Time, time.Time) {
		close(done)
		watching.Wait()
		return from, to
	}
}

// generations of all objects about BGP: they are not changed.
func generations(t *testing.T) string {
	t.Helper()
	var out []string
	for _, kind := range []string{"metallb.io/v1beta2 BGPPeer", "metallb.io/v1beta1 BGPAdvertisement"} {
		version, name, _ := strings.Cut(kind, " ")
		var list unstructured.UnstructuredList
		list.SetAPIVersion(version)
		list.SetKind(name + "List")
		if err := api.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			out = append(out, fmt.Sprintf("%s %s %d", name, list.Items[i].GetName(), list.Items[i].GetGeneration()))
		}
	}
	return strings.Join(out, ", ")
}

// MetalLB's native speakers are replaced, and come back. Its objects stay as they are. A router
// takes one session of a node, so ours waits for the end of MetalLB's: no route is missing for
// longer than from there to our session.
func TestBGPSwap(t *testing.T) {
	showLogs(t)
	agentsStop(t, nodes...)
	installMetalLB(t, "198.51.100.0/24")
	r := newRouters(t)
	bgpObject(t, "BGPPeer", "tor", `{myASN: 65010, peerASN: 65001, peerAddress: 10.77.0.251}`)
	bgpObject(t, "BGPAdvertisement", "edge", `{ipAddressPools: [edge]}`)
	addr := addressesOf(t, newService(t, "web", ofMetalLB))[0]
	p := hostPrefix(addr)
	theirs := startSpeakers(t, p)
	r.leadsTo(p, nodes...)
	before := generations(t)

	agentsRun(t, nodes...)
	for _, node := range nodes {
		awaitPeer(t, node, "tor", "PeerConflict", "")
	}
	r.leadsTo(p, nodes...)
	stop := r.missing(p)
	theirs.stop()
	r.leadsTo(p, nodes...)
	from, to := stop()
	first := time.Time{}
	for _, node := range nodes {
		awaitPeer(t, node, "tor", "PeerReady", "")
		peer, err := peerOf(t, node, "tor")
		if err != nil {
			t.Fatal(err)
		}
		if peer.Since == nil {
			t.Fatalf("%s has %+v", node, peer)
		}
		if first.IsZero() || peer.Since.Time.Before(first) {
			first = peer.Since.Time
		}
	}
	t.Logf("the prefix was missing for %s", to.Sub(from).Round(time.Millisecond))
	// Agents report whole seconds.
	if late := to.Sub(first); late > 2*time.Second && !to.IsZero() {
		t.Errorf("the prefix was missing until %s after the first session", late)
	}
	eventually(t, func() error { return r.dial(addr, 80) })
	if after := generations(t); after != before {
		t.Errorf("objects were %s, and are %s", before, after)
	}

	// And back: MetalLB's speakers try again and again until our agents have left.
	back := startSpeakers(t, p)
	eventually(t, func() error {
		for _, s := range back {
			if s.Err() == nil {
				return fmt.Errorf("a second session was not refused")
			}
		}
		return nil
	})
	agentsStop(t, nodes...)
	r.leadsTo(p, nodes...)
	if after := generations(t); after != before {
		t.Errorf("objects were %s, and are %s", before, after)
	}
}

// Where a router has a second neighbour on each node, both run side by side, and no route is
// missing at any time.
func TestBGPSwapSideBySide(t *testing.T) {
	showLogs(t)
	agentsStop(t, nodes...)
	installMetalLB(t, "198.51.100.0/24")
	r := newRouters(t)
	bgpObject(t, "BGPAdvertisement", "edge", `{ipAddressPools: [edge]}`)
	p := hostPrefix(addressesOf(t, newService(t, "web", ofMetalLB))[0])
	theirs := startSpeakers(t, p)
	r.leadsTo(p, nodes...)
	for i, node := range nodes {
		second := fmt.Sprintf("10.77.0.%d", 111+i)
		onHost(t, node, "ip", "address", "replace", second+"/24", "dev", "eth0")
		t.Cleanup(func() {
			_, _ = cluster.Exec(context.Background(), node, "ip", "address", "delete", second+"/24", "dev", "eth0")
		})
		bgpObject(t, "BGPPeer", "second-"+node, fmt.Sprintf(
			`{myASN: 65010, peerASN: 65001, peerAddress: 10.77.0.251, sourceAddress: %s, nodeSelectors: [{matchLabels: {kubernetes.io/hostname: %s}}]}`, second, node))
	}
	stop := r.missing(p)
	agentsRun(t, nodes...)
	awaitHops := func(want int) {
		t.Helper()
		eventually(t, func() error {
			if hops := nextHops(r.ns, p); len(hops) != want {
				return fmt.Errorf("next hops are %q", hops)
			}
			return nil
		})
	}
	awaitHops(2 * len(nodes))
	theirs.stop()
	awaitHops(len(nodes))
	if from, to := stop(); !from.IsZero() {
		t.Errorf("the prefix was missing from %s to %s", from, to)
	}
}
