package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/browser"
)

// listed is how many addresses an agent lists at most.
const listed = 500

// livePage: how long a person waits for the page of a cluster with 10,000 Services, and
// for a move to be shown on it, in a real browser.
func livePage(ctx context.Context, s settings) (rows []Row, err error) {
	s.n *= 10
	c, err := startCluster(ctx, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	progress("  creating %d Services", s.n)
	if err := c.create(ctx, s.n, inFlight, nil); err != nil {
		return nil, err
	}
	if err := c.giveAll(ctx, s); err != nil {
		return nil, err
	}
	agents, err := c.announceAll(ctx, s.n)
	if err != nil {
		return nil, err
	}
	measured := false
	testing.Benchmark(func(b *testing.B) { // it ends what it starts
		if measured {
			return
		}
		measured = true
		rows, err = c.viewPage(ctx, b, s, agents)
	})
	if err == nil && rows == nil {
		err = errors.New("the browser failed")
	}
	return rows, err
}

// giveAll lets a controller give all Services their address, and ends it.
func (c *cluster) giveAll(ctx context.Context, s settings) (err error) {
	seen, err := c.look(ctx)
	if err != nil {
		return err
	}
	p, err := startFairlead(c, s)
	if err != nil {
		return err
	}
	defer func() { p.Stop(&err) }()
	_, err = seen.first(ctx, s.n)
	return err
}

// announceAll makes as many nodes as it takes to announce all addresses.
func (c *cluster) announceAll(ctx context.Context, n int) (agents []*v1alpha1.Agent, err error) {
	var services corev1.ServiceList
	if err := c.client.List(ctx, &services, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	for i := range (n+listed-1)/listed + 1 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("page-%02d", i)}}
		a := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
		if err := errors.Join(c.client.Create(ctx, node), c.client.Create(ctx, a)); err != nil {
			return nil, err
		}
		a.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()}}
		agents = append(agents, a)
	}
	type held struct {
		netip.Addr
		service string
	}
	var all []held
	for i := range services.Items {
		for _, addr := range kubeapi.Service(&services.Items[i]).Published() {
			all = append(all, held{addr, services.Items[i].Namespace + "/" + services.Items[i].Name})
		}
	}
	// The page shows the lowest addresses first: one of them moves.
	slices.SortFunc(all, func(a, b held) int { return a.Compare(b.Addr) })
	for i, h := range all {
		a := agents[i/listed]
		a.Status.Addresses = append(a.Status.Addresses, v1alpha1.Announcement{Address: h.String(), Services: []string{h.service}, Interface: "eth0", Protocol: "ARP", Since: metav1.Now()})
		a.Status.Announced = int32(len(a.Status.Addresses))
	}
	for _, a := range agents {
		if err := c.client.Status().Update(ctx, a); err != nil {
			return nil, err
		}
	}
	return agents, nil
}

// viewPage opens the page, and moves an address ten times.
func (c *cluster) viewPage(ctx context.Context, b *testing.B, s settings, agents []*v1alpha1.Agent) ([]Row, error) {
	url := browser.UI(b, c.api.Kubeconfig)
	began := time.Now()
	tab := browser.Start(b).Open(url, 1440, 900)
	moving := agents[0].Status.Addresses[0]
	tab.Until("the page is painted", browser.Live+" && "+browser.On(moving.Address, agents[0].Name))
	first := time.Since(began).Seconds()
	took := make([]float64, 0, 10)
	for i := range 10 {
		// To the node that has room, and back.
		from, to := agents[0], agents[len(agents)-1]
		if i%2 == 1 {
			from, to = to, from
		}
		from.Status.Addresses = from.Status.Addresses[1:]
		if from == agents[len(agents)-1] {
			from.Status.Addresses = nil
		}
		from.Status.Announced = int32(len(from.Status.Addresses))
		moving.Since = metav1.Now()
		to.Status.Addresses = append([]v1alpha1.Announcement{moving}, to.Status.Addresses...)
		to.Status.Announced = int32(len(to.Status.Addresses))
		began := time.Now()
		if err := errors.Join(c.client.Status().Update(ctx, to), c.client.Status().Update(ctx, from)); err != nil {
			return nil, err
		}
		tab.Until("the move is shown", browser.On(moving.Address, to.Name))
		took = append(took, time.Since(began).Seconds())
	}
	of := fmt.Sprintf("of %d Services", s.n)
	return []Row{
		info("first paint "+of+", browser and all", first, "s").below(10),
		info("a move among them is shown after", median(took)*1000, "ms").below(1000),
	}, nil
}
