package failover

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"fairlead.io/sandbox"
)

// pair is what tests of two nodes begin with: agents on two nodes only, and Services
// enough for both to have addresses. The third node takes no part.
type pair struct {
	*world
	before map[netip.Addr]string // who has which address
}

var couple = nodes[:2]

func newPair(t *testing.T) *pair {
	t.Helper()
	showLogs(t)
	p := &pair{world: &world{t: t, asker: newAsker(t)}}
	agentsRun(t, nodes...)
	for _, node := range nodes {
		eventually(t, func() error { return meetsAll(t.Context(), node) })
		eventually(t, func() error { return hasNothing(t.Context(), node) })
	}
	running[nodes[2]].terminate(t)
	for i := range 6 {
		p.addrs = append(p.addrs, addressesOf(t, newService(t, fmt.Sprintf("pair-%d", i)))...)
	}
	p.before = p.settle()
	p.forwarded()
	for _, node := range couple {
		if len(p.of(node)) == 0 {
			t.Fatalf("%s has no address: %v", node, p.before)
		}
	}
	return p
}

// meetsAll says whether the agent of a node knows those of all nodes.
func meetsAll(ctx context.Context, node string) error {
	metrics, err := running[node].get(ctx, running[node].metrics, "/metrics")
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("\nfairlead_agent_members %d\n", len(nodes)); !strings.Contains(metrics, want) {
		return fmt.Errorf("the agent of %s does not know all others yet", node)
	}
	return nil
}

// hasNothing says whether a node announces nothing, as it should when an earlier test
// has removed its Services: it would keep these addresses for new ones.
func hasNothing(ctx context.Context, node string) error {
	metrics, err := running[node].get(ctx, running[node].metrics, "/metrics")
	if err != nil {
		return err
	}
	if !strings.Contains(metrics, "\nfairlead_agent_announced_addresses 0\n") {
		return fmt.Errorf("the agent of %s still announces addresses", node)
	}
	return nil
}

// of returns the addresses that a node had in the beginning.
func (p *pair) of(node string) (out []netip.Addr) {
	for addr, owner := range p.before {
		if owner == node {
			out = append(out, addr)
		}
	}
	return out
}

// settle waits until exactly one node answers for each address, and sees that it
// stays so.
func (p *pair) settle() (have map[netip.Addr]string) {
	p.t.Helper()
	eventually(p.t, func() (err error) {
		have, err = p.owners(p.addrs...)
		return err
	})
	p.stays(time.Second, have)
	return have
}

// stays sees that who answers for which address is so for a while.
func (p *pair) stays(d time.Duration, want map[netip.Addr]string) {
	p.t.Helper()
	during(p.t, d, func() error {
		have, err := p.owners(p.addrs...)
		for addr, node := range have {
			if err == nil && want[addr] != node {
				err = fmt.Errorf("%s was at %s, and is at %s", addr, want[addr], node)
			}
		}
		return err
	})
}

// survives waits until a node alone answers for everything, whatever is still on
// interfaces of others.
func (p *pair) survives(node string) {
	p.t.Helper()
	eventually(p.t, func() error {
		census := p.asker.census(p.addrs...)
		for _, addr := range p.addrs {
			if macs := census[addr]; len(macs) != 1 || nodeOf(macs[0]) != node {
				return fmt.Errorf("%s is answered for by %v", addr, macs)
			}
		}
		return nil
	})
}

// The survivor of two takes everything over, whatever happened to the other, and
// keeps it when the other is back.
func TestPairSurvivor(t *testing.T) {
	for name, c := range map[string]struct {
		lose, back func(t *testing.T, node string) error
	}{
		"cable cut": {
			func(t *testing.T, node string) error {
				t.Cleanup(func() { _ = cluster.Heal(node) })
				return cluster.Cut(node)
			}, func(_ *testing.T, node string) error { return cluster.Heal(node) }},
		"agent killed": {
			func(t *testing.T, node string) error { running[node].kill(t); return nil },
			func(t *testing.T, _ string) error { agentsRun(t, couple...); return nil }},
		"node killed": {
			func(t *testing.T, node string) error { return cluster.Kill(t.Context(), node) },
			func(t *testing.T, node string) error {
				if err := cluster.Restart(t.Context(), node); err != nil {
					return err
				}
				agentsRun(t, couple...)
				return nil
			}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			lost, survivor := couple[0], couple[1]
			answers, connections := p.asker.watching(p.of(lost)...), connecting(t, p.of(survivor)...)
			if err := c.lose(t, lost); err != nil {
				t.Fatal(err)
			}
			p.survives(survivor)
			answers()
			if failed := connections(); len(failed) > 0 {
				t.Errorf("connections to the survivor's own addresses failed: %q", failed)
			}
			if err := c.back(t, lost); err != nil {
				t.Fatal(err)
			}
			p.survives(survivor)
			p.settle()
		})
	}
}

// A node dies together with the API server: the survivor keeps what it has and takes
// the rest.
func TestPairWithoutAPIServer(t *testing.T) {
	p := newPair(t)
	lost, survivor := couple[0], couple[1]
	answers, connections := p.asker.watching(p.of(lost)...), connecting(t, p.of(survivor)...)
	killAPIServer(t)
	if err := cluster.Kill(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	p.survives(survivor)
	during(t, 5*time.Second, func() error { return p.onlyAt(survivor) })
	answers()
	if failed := connections(); len(failed) > 0 {
		t.Errorf("connections to the survivor's own addresses failed: %q", failed)
	}
	if err := cluster.Restart(t.Context(), sandbox.ControlHost); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Restart(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	agentsRun(t, couple...)
	p.survives(survivor)
	p.settle()
}

// Two nodes that do not hear each other's gossip, in one direction or both, hear each
// other on the LAN: nothing moves.
func TestPairGossipIsLost(t *testing.T) {
	a, b := couple[0], couple[1]
	for name, cut := range map[string]func(t *testing.T) (heal func()){
		a + " does not hear " + b: func(t *testing.T) func() { return deaf(t, a, b) },
		b + " does not hear " + a: func(t *testing.T) func() { return deaf(t, b, a) },
		"neither":                 func(t *testing.T) func() { x, y := deaf(t, a, b), deaf(t, b, a); return func() { x(); y() } },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			heal := cut(t)
			p.stays(8*time.Second, p.before)
			heal()
			p.stays(3*time.Second, p.before)
		})
	}
}

// cutOneWay has the switch lose all frames from one node to another until the test
// ends or the returned function is called.
func cutOneWay(t *testing.T, from, to string) (heal func()) {
	t.Helper()
	onHost(t, sandbox.SwitchHost, "nft", fmt.Sprintf(`add table bridge cut
add chain bridge cut forward { type filter hook forward priority 0; }
add rule bridge cut forward iifname %q oifname %q drop`, from, to))
	heal = func() {
		_, _ = cluster.Exec(context.Background(), sandbox.SwitchHost, "nft", "delete table bridge cut")
	}
	t.Cleanup(heal)
	return heal
}

// Frames are lost in one direction: the node that does not hear the other takes
// everything, the other hears that and yields. One node answers in the end, and it
// stays so for longer than a node is remembered.
func TestPairFramesAreLostInOneDirection(t *testing.T) {
	for i, from := range couple {
		to := couple[1-i]
		t.Run(from+" is not heard", func(t *testing.T) {
			p := newPair(t)
			connections := connecting(t, p.addrs...)
			heal := cutOneWay(t, from, to)
			p.survives(to)
			failed := connections()
			t.Logf("%d connections failed", len(failed))
			during(t, 20*time.Second, func() error { return p.onlyAt(to) })
			heal()
			p.survives(to)
			p.settle()
		})
	}
}
