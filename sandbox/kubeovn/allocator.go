// Package kubeovn stands in for kube-ovn where it cannot be had: it allocates addresses
// for OvnEips as kube-ovn-controller does, in the same order of writes, and gives Vpcs
// their gateways. It knows neither Fairlead nor OVN's database.
package kubeovn

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubeovn"
)

// finalizer of kube-ovn on OvnEips.
const finalizer = "kubeovn.io/kube-ovn-controller"

// Allocator allocates addresses.
type Allocator struct {
	// Full: it finds no free address any more.
	Full atomic.Bool

	client client.Client
	cache  cache.Cache
	poke   chan struct{}

	mu      sync.Mutex
	refused map[netip.Addr]bool
}

// New returns an allocator for a cluster.
func New(c *rest.Config) (*Allocator, error) {
	s := runtime.NewScheme()
	if err := api.AddToScheme(s); err != nil {
		return nil, err
	}
	writer, err := client.New(c, client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	reader, err := cache.New(c, cache.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("create cache: %w", err)
	}
	return &Allocator{client: writer, cache: reader, poke: make(chan struct{}, 1), refused: map[netip.Addr]bool{}}, nil
}

// Refuse says that somebody else has an address.
func (a *Allocator) Refuse(address netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused[address] = true
}

// Look lets it look at everything again.
func (a *Allocator) Look() {
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

// Run allocates until ctx ends.
func (a *Allocator) Run(ctx context.Context) error {
	for _, o := range []client.Object{&api.OvnEip{}, &api.Subnet{}, &api.Vpc{}} {
		informer, err := a.cache.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		changed := func(any) { a.Look() }
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: changed, DeleteFunc: changed, UpdateFunc: func(any, any) { a.Look() }}); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- a.cache.Start(ctx) }()
	if !a.cache.WaitForCacheSync(ctx) {
		return <-ended
	}
	for {
		select {
		case err := <-ended:
			return err
		case <-a.poke:
		}
		if err := a.turn(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
}

func (a *Allocator) turn(ctx context.Context) error {
	var vpcs api.VpcList
	var subnets api.SubnetList
	var eips api.OvnEipList
	// Straight from the API server: its own writes must be among what it reads.
	for _, l := range []client.ObjectList{&vpcs, &subnets, &eips} {
		if err := a.client.List(ctx, l); err != nil {
			return err
		}
	}
	there := map[string]bool{}
	for _, e := range eips.Items {
		there[e.Name] = true
	}
	for _, v := range vpcs.Items {
		for _, s := range v.Spec.ExtraExternalSubnets {
			if name := v.Name + "-" + s; v.Spec.EnableExternal && !there[name] {
				gateway := &api.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.OvnEipSpec{ExternalSubnet: s, Type: api.TypeRouterPort}}
				if err := a.client.Create(ctx, gateway); err != nil && !apierrors.IsAlreadyExists(err) {
					return err
				}
			}
		}
	}
	for i := range eips.Items {
		if err := a.serve(ctx, &eips.Items[i], subnets.Items, eips.Items); err != nil {
			return err
		}
	}
	return nil
}

// serve writes spec and labels, then the status, then that it is ready.
func (a *Allocator) serve(ctx context.Context, e *api.OvnEip, subnets []api.Subnet, all []api.OvnEip) error {
	switch {
	case e.DeletionTimestamp != nil:
		return a.patch(ctx, e, `{"metadata":{"finalizers":null}}`, false)
	case e.Status.Ready:
		return nil
	}
	address := e.Spec.V4IP
	if e.Status.V4IP == "" {
		if address = a.free(e, subnets, all); address == "" {
			return nil
		}
	}
	const mac = "02:00:00:00:00:07"
	for _, change := range []struct {
		text   string
		status bool
	}{
		{fmt.Sprintf(`{"metadata":{"finalizers":[%q],"labels":{"ovn.kubernetes.io/subnet":%q,"ovn.kubernetes.io/ovn_eip_type":"lrp","ovn.kubernetes.io/eip_v4_ip":%q}},"spec":{"v4Ip":%q,"macAddress":%q,"type":"lrp"}}`, finalizer, e.Spec.ExternalSubnet, address, address, mac), false},
		{fmt.Sprintf(`{"status":{"v4Ip":%q,"macAddress":%q,"type":"lrp"}}`, address, mac), true},
		{`{"status":{"ready":true}}`, true},
	} {
		if err := a.patch(ctx, e, change.text, change.status); err != nil {
			return err
		}
	}
	return nil
}

func (a *Allocator) patch(ctx context.Context, e *api.OvnEip, text string, status bool) error {
	change := client.RawPatch(types.MergePatchType, []byte(text))
	if status {
		return a.client.Status().Patch(ctx, e, change)
	}
	return a.client.Patch(ctx, e, change)
}

// free is the address that e gets: the one that it asks for, or the lowest free one.
func (a *Allocator) free(e *api.OvnEip, subnets []api.Subnet, all []api.OvnEip) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	usable := func(x netip.Addr) bool {
		return !a.Full.Load() && !a.refused[x] && !slices.ContainsFunc(all, func(o api.OvnEip) bool {
			return o.Name != e.Name && (o.Status.V4IP == x.String() || o.Spec.MACAddress != "" && o.Spec.V4IP == x.String())
		})
	}
	for _, s := range subnets {
		p, err := netip.ParsePrefix(s.Spec.CIDRBlock)
		if s.Name != e.Spec.ExternalSubnet || err != nil {
			continue
		}
		if x, err := netip.ParseAddr(e.Spec.V4IP); err == nil {
			if p.Contains(x) && usable(x) {
				return x.String()
			}
			return ""
		}
		// Neither the network's own address, nor the last one, which is for broadcasts.
		for x := p.Masked().Addr().Next(); p.Contains(x.Next()); x = x.Next() {
			if usable(x) && !excluded(s, x) {
				return x.String()
			}
		}
	}
	return ""
}

// excluded says whether a subnet keeps an address: it is the gateway, or in excludeIps,
// which are addresses and ranges a..b.
func excluded(s api.Subnet, x netip.Addr) bool {
	for _, text := range append(slices.Clone(s.Spec.ExcludeIPs), s.Spec.Gateway) {
		from, to, isRange := strings.Cut(text, "..")
		if !isRange {
			to = from
		}
		first, err1 := netip.ParseAddr(from)
		last, err2 := netip.ParseAddr(to)
		if err1 == nil && err2 == nil && !x.Less(first) && !last.Less(x) {
			return true
		}
	}
	return false
}
