// Package kubeovn stands in for kube-ovn where it cannot be had: it allocates addresses
// for OvnEips as kube-ovn-controller does, in the same order of writes, and gives Vpcs
// their gateways. [Network] makes the rest of what they ask for in OVN's northbound
// database. It does not know Fairlead.
package kubeovn

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	// NeverReady: it allocates addresses, but OvnEips do not become ready.
	NeverReady atomic.Bool

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
		if used, err := a.translated(ctx, e); err != nil || used {
			return err
		}
		return a.patch(ctx, e, `{"metadata":{"finalizers":null}}`, false)
	case e.Status.Ready:
		return nil
	}
	v4, v6 := e.Spec.V4IP, e.Spec.V6IP
	if e.Status.V4IP == "" && e.Status.V6IP == "" {
		var ok bool
		if v4, v6, ok = a.free(e, subnets, all); !ok {
			return nil
		}
	}
	mac := cmp.Or(e.Spec.MACAddress, mac(e.Name))
	for _, change := range []struct {
		text   string
		status bool
	}{
		{fmt.Sprintf(`{"metadata":{"finalizers":[%q],"labels":{"ovn.kubernetes.io/subnet":%q,"ovn.kubernetes.io/ovn_eip_type":"lrp","ovn.kubernetes.io/eip_v4_ip":%q,"ovn.kubernetes.io/eip_v6_ip":%q}},"spec":{"v4Ip":%q,"v6Ip":%q,"macAddress":%q,"type":"lrp"}}`, finalizer, e.Spec.ExternalSubnet, v4, strings.ReplaceAll(v6, ":", "."), v4, v6, mac), false},
		{fmt.Sprintf(`{"status":{"v4Ip":%q,"v6Ip":%q,"macAddress":%q,"type":"lrp"}}`, v4, v6, mac), true},
		{`{"status":{"ready":true}}`, true},
	} {
		if strings.Contains(change.text, `"ready"`) && a.NeverReady.Load() {
			return nil
		}
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

// free are the addresses that e gets: the one that it asks for, or the lowest free ones,
// one of each family that the subnet has.
func (a *Allocator) free(e *api.OvnEip, subnets []api.Subnet, all []api.OvnEip) (v4, v6 string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	usable := func(x netip.Addr) bool {
		return !a.Full.Load() && !a.refused[x] && !slices.ContainsFunc(all, func(o api.OvnEip) bool {
			return o.Name != e.Name && (has(o.Status.V4IP, o.Status.V6IP, x) || o.Spec.MACAddress != "" && has(o.Spec.V4IP, o.Spec.V6IP, x))
		})
	}
	for _, s := range subnets {
		if s.Name != e.Spec.ExternalSubnet {
			continue
		}
		for cidr := range strings.SplitSeq(s.Spec.CIDRBlock, ",") {
			p, err := netip.ParsePrefix(cidr)
			if err != nil {
				continue
			}
			x := pick(p, e.Spec.V4IP, func(x netip.Addr) bool { return usable(x) && !excluded(s, x) }, usable)
			switch {
			case !x.IsValid():
				return "", "", false
			case x.Is4():
				v4 = x.String()
			default:
				v6 = x.String()
			}
		}
	}
	return v4, v6, v4 != "" || v6 != ""
}

func has(v4, v6 string, x netip.Addr) bool { return v4 == x.String() || v6 == x.String() }

// pick returns the address of a network that is asked for, if it is usable, else the
// lowest one that may be given: neither the network's own address, nor the last one,
// which is for broadcasts.
func pick(p netip.Prefix, asked string, may, usable func(netip.Addr) bool) netip.Addr {
	if x, err := netip.ParseAddr(asked); err == nil && x.Is4() == p.Addr().Is4() {
		if p.Contains(x) && usable(x) {
			return x
		}
		return netip.Addr{}
	}
	for x := p.Masked().Addr().Next(); p.Contains(x.Next()); x = x.Next() {
		if may(x) {
			return x
		}
	}
	return netip.Addr{}
}

// translated says whether a rule still uses the address: kube-ovn waits for its end.
func (a *Allocator) translated(ctx context.Context, e *api.OvnEip) (bool, error) {
	for _, kind := range append([]string{dnatRule}, ruleKinds...) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(api.GroupVersion.WithKind(kind + "List"))
		err := a.client.List(ctx, list)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		for _, o := range list.Items {
			if name, _, _ := unstructured.NestedString(o.Object, "spec", "ovnEip"); name == e.Name {
				return true, nil
			}
		}
	}
	return false, nil
}

// excluded says whether a subnet keeps an address: it is the gateway, or in excludeIps,
// which are addresses and ranges a..b.
func excluded(s api.Subnet, x netip.Addr) bool {
	for _, text := range append(slices.Clone(s.Spec.ExcludeIPs), strings.Split(s.Spec.Gateway, ",")...) {
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
