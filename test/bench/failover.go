package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/test/kit/client"
)

// calm is how long nothing happens before a node dies. A member that was thought
// dead doubts itself and others for some seconds, which is not what this is
// about.
const calm = 3 * time.Second

// event is something that happens to the owner of an address.
type event struct {
	name   string
	strike func(context.Context, *lan, string) error
	mend   func(context.Context, *lan, string) error
	calm   time.Duration // before it
	// seamless: no connection may fail; stays: the addresses may not move.
	seamless, stays bool
	rows            func(*outcomes) []Row
}

// lethal is how many of the events, the first ones, are deaths.
const lethal = 3

var events = []event{
	{name: "cable cut", calm: calm,
		strike: func(_ context.Context, l *lan, owner string) error { return l.Cluster.Cut(owner) },
		mend:   func(_ context.Context, l *lan, owner string) error { return l.Cluster.Heal(owner) },
		rows:   (*outcomes).interruption},
	{name: "node killed", calm: calm,
		strike: func(ctx context.Context, l *lan, owner string) error { return l.Cluster.Kill(ctx, owner) },
		mend: func(ctx context.Context, l *lan, owner string) error {
			return errors.Join(l.Cluster.Restart(ctx, owner), l.Run(ctx, owner))
		},
		rows: (*outcomes).interruption},
	{name: "agent killed", calm: time.Second, seamless: true,
		strike: func(ctx context.Context, l *lan, owner string) error {
			return l.Agents[owner].End(ctx, syscall.SIGKILL)
		},
		mend: func(ctx context.Context, l *lan, owner string) error { return l.Run(ctx, owner) },
		rows: (*outcomes).handOver},
	{name: "node drained", calm: time.Second, seamless: true,
		strike: func(ctx context.Context, l *lan, owner string) error {
			return errors.Join(l.cordon(ctx, owner, true), l.Agents[owner].End(ctx, syscall.SIGTERM))
		},
		mend: func(ctx context.Context, l *lan, owner string) error {
			return errors.Join(l.cordon(ctx, owner, false), l.Run(ctx, owner))
		},
		rows: (*outcomes).handOver},
	{name: "agents of all nodes upgraded", calm: time.Second, seamless: true, stays: true,
		strike: func(ctx context.Context, l *lan, _ string) error { return l.upgrade(ctx) },
		rows: func(o *outcomes) []Row {
			return append(o.handOver(), info(fmt.Sprintf("%s: addresses moved, %d times", o.name, len(o.unanswered)), float64(o.moves), "").exactly(0))
		}},
}

// outcomes of an event that happened again and again, with both families.
type outcomes struct {
	name         string
	made, failed int       // connections
	interrupted  []float64 // ms between two connections that were made, at most
	unanswered   []float64 // ms without an answer to ARP, at most
	moves        int
}

// failover: what clients see while something happens to the node that has their
// address: new connections in both families and ARP, each every 20 ms.
func failover(ctx context.Context, s settings) (rows []Row, err error) {
	l := s.lan
	if err := l.up(ctx, s); err != nil {
		return nil, err
	}
	defer func() { l.Tell(&err) }()
	if err := l.Run(ctx, l.nodes...); err != nil {
		return nil, err
	}
	service, err := l.newService(ctx, metav1.NamespaceDefault, "web")
	if err != nil {
		return nil, err
	}
	addrs, err := l.addresses(ctx, service)
	if err != nil {
		return nil, err
	}
	all := func(events []event, prefix string) error {
		for _, e := range events {
			e.name = prefix + e.name
			o := &outcomes{name: e.name}
			for range 2 * s.rounds {
				if err := l.happen(ctx, e, addrs, o); err != nil {
					return fmt.Errorf("%s: %w", e.name, err)
				}
			}
			progress("  %s: %d of %d connections failed, at most %.0f ms without", e.name, o.failed, o.made+o.failed, quantile(o.interrupted, 1))
			rows = append(rows, e.rows(o)...)
		}
		return nil
	}
	if err := all(events, ""); err != nil {
		return nil, err
	}
	// The third node takes no part: the survivor of two is alone, and asks the LAN.
	third := l.nodes[len(l.nodes)-1]
	if err := l.Agents[third].End(ctx, syscall.SIGTERM); err != nil {
		return nil, err
	}
	if err := all(events[:lethal], "two nodes, "); err != nil {
		return nil, err
	}
	return rows, errors.Join(l.Run(ctx, third), l.api.Delete(ctx, service))
}

// happen lets an event happen once to the owner of the addresses.
func (l *lan) happen(ctx context.Context, e event, addrs []netip.AddrPort, o *outcomes) error {
	asker, err := client.Ask(l.Cluster, addrs[0].Addr())
	if err != nil {
		return err
	}
	defer asker.Close()
	owner, err := l.settled(ctx, asker, addrs, e.calm)
	if err != nil {
		return err
	}
	connections := client.Connect(l.Cluster, addrs...)
	began := time.Now()
	err = errors.Join(pause(ctx, 500*time.Millisecond), e.strike(ctx, l, owner))
	if err == nil && !e.stays {
		_, err = l.only(ctx, asker, func(node string) bool { return node != owner })
	}
	err = errors.Join(err, pause(ctx, 500*time.Millisecond))
	unanswered := asker.Gap(began)
	for _, r := range connections.Stop() {
		o.made += len(r.Made)
		o.failed += len(r.Failed)
		o.interrupted = append(o.interrupted, milliseconds(r.Gap))
		if e.seamless {
			for _, failed := range r.Failed {
				progress("  %s, connection to %s failed %s", e.name, r.To, failed)
			}
		}
	}
	o.unanswered = append(o.unanswered, milliseconds(unanswered))
	if nodes := asker.Nodes(began); len(nodes) > 1 {
		if o.moves++; e.stays {
			progress("  %s, moved: %v have answered", e.name, nodes)
		}
	}
	if e.mend != nil {
		err = errors.Join(err, e.mend(ctx, l, owner))
	}
	return err
}

// settled waits until it was calm for a while, and returns the one node that has
// answered meanwhile.
func (l *lan) settled(ctx context.Context, asker *client.Asker, addrs []netip.AddrPort, calm time.Duration) (owner string, err error) {
	for _, addr := range addrs {
		err := pollFor(ctx, time.Minute, "connections to "+addr.String(), 50*time.Millisecond, func() (bool, error) {
			return client.Greet(ctx, l.Cluster, addr) == nil, ctx.Err()
		})
		if err != nil {
			return "", err
		}
	}
	if err := pause(ctx, calm); err != nil {
		return "", err
	}
	return l.only(ctx, asker, func(string) bool { return true })
}

// only waits until for some time one node alone has answered, a good one.
func (l *lan) only(ctx context.Context, asker *client.Asker, good func(string) bool) (node string, err error) {
	err = pollFor(ctx, time.Minute, "a single node answers", 20*time.Millisecond, func() (bool, error) {
		nodes := asker.Nodes(time.Now().Add(-300 * time.Millisecond))
		if len(nodes) != 1 || !good(nodes[0]) {
			return false, nil
		}
		node = nodes[0]
		return true, nil
	})
	return node, err
}

// upgrade replaces the agents of all nodes, one after the other, as a DaemonSet
// with maxSurge 1 does.
func (l *lan) upgrade(ctx context.Context) error {
	for _, node := range l.nodes {
		next, err := l.Start(ctx, node)
		if err != nil {
			return err
		}
		former := l.Agents[node]
		if err := errors.Join(next.Ready(ctx), former.End(ctx, syscall.SIGTERM)); err != nil {
			return err
		}
		l.Agents[node] = next
	}
	return pause(ctx, time.Second)
}

func (l *lan) cordon(ctx context.Context, name string, yes bool) error {
	node := &corev1.Node{}
	node.Name = name
	return l.api.Patch(ctx, node, kube.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, yes)))
}

// interruption are the rows of what no client can fail to notice.
func (o *outcomes) interruption() []Row {
	of := fmt.Sprintf("%s: no new connection, of %d times", o.name, len(o.interrupted))
	return []Row{
		info(of+" the median", median(o.interrupted), "ms"),
		info(of+" the longest", quantile(o.interrupted, 1), "ms").below(1000),
		info(fmt.Sprintf("%s: no answer to ARP, of %d times the longest", o.name, len(o.unanswered)), quantile(o.unanswered, 1), "ms").below(1000),
	}
}

// handOver are the rows of what no client should notice.
func (o *outcomes) handOver() []Row {
	return []Row{
		info(fmt.Sprintf("%s: failed of %d new connections, %d times", o.name, o.made+o.failed, len(o.unanswered)), float64(o.failed), "").exactly(0),
		info(fmt.Sprintf("%s: no answer to ARP, of %d times the longest", o.name, len(o.unanswered)), quantile(o.unanswered, 1), "ms").below(1000),
	}
}
