package kubeovn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubeovn"
)

// LabelGateway marks nodes that routers reach external networks through.
const LabelGateway = "ovn.kubernetes.io/external-gw"

// Network makes what Vpcs, Subnets, OvnEips and rules ask for in OVN's northbound
// database, by ovn-nbctl: routers, switches, their ports, gateways, NAT, policies, and the
// load balancers with the ClusterIPs of a Vpc's Services.
type Network struct {
	client client.Client
	cache  cache.Cache
	ctl    Ctl
	poke   chan struct{}
}

// retry is when something is tried again that went wrong.
const retry = 300 * time.Millisecond

// Ctl runs ovn-nbctl with these arguments and returns what it prints.
type Ctl func(ctx context.Context, args ...string) (string, error)

// NewNetwork returns the network of a cluster.
func NewNetwork(c *rest.Config, ctl Ctl) (*Network, error) {
	s := runtime.NewScheme()
	if err := errors.Join(api.AddToScheme(s), scheme.AddToScheme(s)); err != nil {
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
	return &Network{client: writer, cache: reader, ctl: ctl, poke: make(chan struct{}, 1)}, nil
}

func (n *Network) look() {
	select {
	case n.poke <- struct{}{}:
	default:
	}
}

// Run follows the objects until ctx ends. It begins as kube-ovn-controller does: it
// collects garbage.
func (n *Network) Run(ctx context.Context) error {
	watched := []client.Object{&api.OvnEip{}, &api.Subnet{}, &api.Vpc{}, &corev1.Node{}, &corev1.Service{}, &discoveryv1.EndpointSlice{}}
	for _, kind := range ruleKinds {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(api.GroupVersion.WithKind(kind))
		watched = append(watched, o)
	}
	for _, o := range watched {
		informer, err := n.cache.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		changed := func(any) { n.look() }
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: changed, DeleteFunc: changed, UpdateFunc: func(any, any) { n.look() }}); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- n.cache.Start(ctx) }()
	if !n.cache.WaitForCacheSync(ctx) {
		return <-ended
	}
	if err := n.CollectGarbage(ctx); err != nil {
		return err
	}
	n.look()
	for {
		select {
		case err := <-ended:
			return err
		case <-n.poke:
		}
		if err := n.turn(ctx); err != nil && ctx.Err() == nil {
			slog.Warn("trying again", "error", err)
			time.AfterFunc(retry, n.look)
		}
	}
}

// world is what the objects say.
type world struct {
	vpcs    []vpc
	subnets []api.Subnet
	eips    []api.OvnEip
	chassis []string // nodes that are gateways
	rules   []rule
	lbs     map[string]map[string]string // VIPs of each load balancer with ClusterIPs
}

// vpc has more than Fairlead's own type.
type vpc struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		api.VpcSpec  `json:",inline"`
		StaticRoutes []struct {
			CIDR      string `json:"cidr"`
			NextHopIP string `json:"nextHopIP"`
		} `json:"staticRoutes"`
		PolicyRoutes []policyRoute `json:"policyRoutes"`
	} `json:"spec"`
}

type policyRoute struct {
	Priority  int    `json:"priority"`
	Match     string `json:"match"`
	Action    string `json:"action"`
	NextHopIP string `json:"nextHopIP"`
}

func (n *Network) read(ctx context.Context) (w world, err error) {
	vpcs := &unstructured.UnstructuredList{}
	vpcs.SetGroupVersionKind(api.GroupVersion.WithKind("VpcList"))
	var subnets api.SubnetList
	var eips api.OvnEipList
	var nodes corev1.NodeList
	for _, l := range []client.ObjectList{vpcs, &subnets, &eips} {
		if err := n.client.List(ctx, l); err != nil {
			return w, err
		}
	}
	if err := n.cache.List(ctx, &nodes, client.MatchingLabels{LabelGateway: "true"}); err != nil {
		return w, err
	}
	for _, o := range vpcs.Items {
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		raw, err := o.MarshalJSON()
		if err != nil {
			return w, err
		}
		var v vpc
		if err := json.Unmarshal(raw, &v); err != nil {
			return w, fmt.Errorf("read Vpc %s: %w", o.GetName(), err)
		}
		w.vpcs = append(w.vpcs, v)
	}
	w.subnets, w.eips = subnets.Items, eips.Items
	for _, o := range nodes.Items {
		w.chassis = append(w.chassis, o.Name)
	}
	slices.Sort(w.chassis)
	if w.rules, err = n.readRules(ctx, w); err != nil {
		return w, err
	}
	w.lbs, err = n.clusterIPs(ctx, w)
	return w, err
}

func (n *Network) turn(ctx context.Context) error {
	w, err := n.read(ctx)
	if err != nil {
		return err
	}
	rows, err := n.readRows(ctx)
	if err != nil {
		return err
	}
	if err := n.do(ctx, plan(w, rows)); err != nil {
		return err
	}
	for _, v := range w.vpcs {
		if err := n.writeStatus(ctx, w, v); err != nil {
			return err
		}
	}
	return nil
}

// do runs commands of ovn-nbctl as one transaction, if there are any.
func (n *Network) do(ctx context.Context, changes [][]string) error {
	if len(changes) == 0 {
		return nil
	}
	var args []string
	for _, change := range changes {
		args = append(append(args, "--"), change...)
	}
	_, err := n.ctl(ctx, args...)
	return err
}

// writeStatus says what the router has.
func (n *Network) writeStatus(ctx context.Context, w world, v vpc) error {
	var o api.Vpc
	if err := n.client.Get(ctx, client.ObjectKey{Name: v.Metadata.Name}, &o); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := o.DeepCopy()
	o.Status.Router, o.Status.Subnets, o.Status.ExtraExternalSubnets = o.Name, nil, nil
	for _, s := range w.subnets {
		if s.Spec.Vpc == o.Name && overlay(s) {
			o.Status.Subnets = append(o.Status.Subnets, s.Name)
		}
	}
	for _, s := range v.external() {
		if w.gateway(v, s) != nil {
			o.Status.ExtraExternalSubnets = append(o.Status.ExtraExternalSubnets, s)
		}
	}
	if slices.Equal(before.Status.Subnets, o.Status.Subnets) && slices.Equal(before.Status.ExtraExternalSubnets, o.Status.ExtraExternalSubnets) && before.Status.Router == o.Name {
		return nil
	}
	return n.client.Status().Patch(ctx, &o, client.MergeFrom(before))
}

func (v vpc) external() []string {
	if !v.Spec.EnableExternal {
		return nil
	}
	return v.Spec.ExtraExternalSubnets
}

// gateway is the OvnEip of a router's port in an external subnet, once it has an address.
func (w world) gateway(v vpc, subnet string) *api.OvnEip {
	for i, e := range w.eips {
		if e.Name == v.Metadata.Name+"-"+subnet && e.Spec.ExternalSubnet == subnet && e.Status.Ready && e.DeletionTimestamp == nil {
			return &w.eips[i]
		}
	}
	return nil
}

func (w world) subnet(name string) *api.Subnet {
	for i, s := range w.subnets {
		if s.Name == name {
			return &w.subnets[i]
		}
	}
	return nil
}

// overlay says whether a subnet is a network between chassis, not one outside.
func overlay(s api.Subnet) bool { return s.Spec.Vlan == "" }

// networks are addresses with the prefix lengths of the subnet's networks.
func networks(s api.Subnet, addresses ...string) []string {
	var out []string
	for text := range strings.SplitSeq(strings.Join(addresses, ","), ",") {
		a, err := netip.ParseAddr(text)
		for cidr := range strings.SplitSeq(s.Spec.CIDRBlock, ",") {
			if p, perr := netip.ParsePrefix(cidr); err == nil && perr == nil && p.Contains(a) {
				out = append(out, netip.PrefixFrom(a, p.Bits()).String())
			}
		}
	}
	return out
}

// mac is a hardware address that follows from a name.
func mac(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", sum[0], sum[1], sum[2], sum[3], sum[4])
}

// sorted returns a map's pairs as ovn-nbctl takes them, ordered by key.
func sorted(m map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%q=%q", key, m[key]))
	}
	return out
}

func byName(a, b vpc) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) }
