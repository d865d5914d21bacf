package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/sandbox"
	standin "fairlead.io/sandbox/kubeovn"
)

// ovnWrites: what the controller writes to the API server and to OVN's database for
// Services with addresses from a pool, and for Services with an EIp of their own each.
func ovnWrites(ctx context.Context, s settings) (rows []Row, err error) {
	for _, pools := range []bool{true, false} {
		more, err := ovnWritesWith(ctx, s, pools)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

func ovnWritesWith(ctx context.Context, s settings, pools bool) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{Audit: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	n, err := startNorthbound(ctx, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	class, with := ", pools: [native]", "with pools: "
	if pools {
		err = c.endpoints(ctx, s.n)
	} else {
		class, with = "", "with EIps: "
		stop, failed := c.startKubeOVN(ctx)
		if failed != nil {
			return nil, failed
		}
		defer stop()
	}
	if err != nil {
		return nil, err
	}
	seen, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	p, err := n.startWith(c, s, class)
	if err != nil {
		return nil, err
	}
	defer func() { p.Stop(&err) }()
	// What the project itself needs, such as the status of its gateway, is not counted.
	before, err := c.quiet(ctx, 2*time.Second, 0)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := c.create(ctx, s.n, inFlight, nil); err != nil {
		return nil, err
	}
	if _, err := seen.first(ctx, s.n); err != nil {
		return nil, err
	}
	progress("  %s%d Services after %.1f s", with, s.n, time.Since(began).Seconds())
	served, err := c.quiet(ctx, 5*time.Second, s.n)
	if err != nil {
		return nil, err
	}
	cfg, err := n.cfg(ctx)
	if err != nil {
		return nil, err
	}
	progress("  waiting for a minute in which nothing is written")
	if err := pause(ctx, idle); err != nil {
		return nil, err
	}
	after, err := c.writes()
	if err != nil {
		return nil, err
	}
	later, err := n.cfg(ctx)
	if err != nil {
		return nil, err
	}
	each := func(what string) float64 { return float64(served[what]-before[what]) / float64(s.n) }
	rows = append(rows,
		info(with+"writes of a Service, each", each("patch services/status"), "").exactly(1),
		info(with+"events, for each Service", each("create events"), "").exactly(1))
	for _, what := range slices.Sorted(maps.Keys(served)) {
		switch row := info(with+what+", for each Service", each(what), ""); {
		case what == "patch services/status" || what == "create events" || served[what] == before[what]:
		case what == "patch pools/status": // how many addresses are left, now and then
			rows = append(rows, row)
		case pools:
			rows = append(rows, row.exactly(0))
		default:
			rows = append(rows, row.exactly(1))
		}
	}
	return append(rows,
		info(with+"transactions per Service", float64(cfg)/float64(s.n), "").atMost(1),
		info(with+"writes of all kinds, in an idle minute", float64(total(after)-total(served)), "").exactly(0),
		info(with+"transactions in an idle minute", float64(later-cfg), "").exactly(0),
	), nil
}

// startKubeOVN makes the namespace a project, and allocates addresses as kube-ovn does.
func (c *cluster) startKubeOVN(ctx context.Context) (stop func(), err error) {
	for _, crd := range standin.CRDs() {
		if err := c.client.Create(ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
	}
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, api.AddToScheme, kubeovn.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	objects := []client.Object{
		&kubeovn.Subnet{ObjectMeta: metav1.ObjectMeta{Name: "ext-public", Labels: map[string]string{kubedc.LabelNetworkType: kubedc.Public}}, Spec: kubeovn.SubnetSpec{CIDRBlock: "100.64.0.0/16", Gateway: "100.64.0.1", Vlan: "v"}},
		&kubeovn.Vpc{ObjectMeta: metav1.ObjectMeta{Name: "project"}, Spec: kubeovn.VpcSpec{Namespaces: []string{namespace}, EnableExternal: true, ExtraExternalSubnets: []string{"ext-public"}}},
		&api.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: kubedc.DefaultGateway}, Spec: api.EIpSpec{ChildRef: "project-ext-public"}},
	}
	var kube client.Client
	err = poll(ctx, "the kinds are served", pollEvery, func() (bool, error) {
		made, err := client.New(c.api.RESTConfig(), client.Options{Scheme: s})
		kube = made
		for _, l := range []client.ObjectList{&api.EIpList{}, &api.FIpList{}, &api.ProjectList{}, &kubeovn.OvnEipList{}, &kubeovn.SubnetList{}, &kubeovn.VpcList{}} {
			if err == nil {
				err = kube.List(ctx, l)
			}
		}
		return err == nil, nil
	})
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if err := kube.Create(ctx, o); err != nil {
			return nil, err
		}
	}
	a, err := standin.New(c.api.RESTConfig())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	// The gateway is there before any Service.
	err = poll(ctx, "the gateway has an address", pollEvery, func() (bool, error) {
		var e kubeovn.OvnEip
		err := kube.Get(ctx, client.ObjectKey{Name: "project-ext-public"}, &e)
		return err == nil && e.Status.Ready, client.IgnoreNotFound(err)
	})
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			progress("kube-ovn: %v", err)
		}
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("start kube-ovn: %w", err)
	}
	return stop, nil
}
