package placement

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/backend/ovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/config"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
	northbounddb "fairlead.io/internal/ovn"
	"fairlead.io/internal/ovsdb"
	"fairlead.io/test/kit/leak"
	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/northbound"
	"fairlead.io/test/kit/process"
)

func TestMain(m *testing.M) { leak.Main(m) }

const namespace = "shalb-dev"

// world has the objects of a project, as they are in the book that package projects keeps,
// and notes what is written.
type world struct {
	*Placer
	t    testing.TB
	book *eip.Book

	unread error    // why objects cannot be read
	fails  error    // what comes of writes
	did    []string // steps
	routes []kubeovn.PolicyRoute
	routed int // calls of Route
	woken  []string
}

// Run does nothing: a test tells of objects itself.
func (w *world) Run(context.Context, func(...types.NamespacedName)) error { return nil }

// Touch does nothing.
func (w *world) Touch(...types.NamespacedName) {}

// View looks at a Service as package projects does.
func (w *world) View(s *lb.Service) (*eip.View, error) {
	if w.unread != nil {
		return nil, w.unread
	}
	if c, ok := w.claim(s); ok {
		w.book.Service(s.Key, s.UID, &c)
	}
	return w.book.LookAtService(s.Key, rowsOf(w.db), time.Now()), nil
}

// Locate finds a namespace's place.
func (w *world) Locate(namespace string) (place kubedc.Place, ok bool, problem string, err error) {
	if w.unread != nil {
		return place, false, "", w.unread
	}
	place, ok, problem = w.book.Place(namespace)
	return place, ok, problem, nil
}

// Do notes the steps.
func (w *world) Do(_ context.Context, plan lb.Plan) error {
	for _, s := range plan.Steps {
		w.did = append(w.did, string(s.Verb)+" "+s.Key())
	}
	return w.fails
}

// Route notes the routes.
func (w *world) Route(_ context.Context, _ string, _ types.NamespacedName, needed []kubeovn.PolicyRoute) error {
	w.routes, w.routed = needed, w.routed+1
	return w.fails
}

var configuration = &config.Configuration{Classes: []config.Class{
	{Backend: config.OVN}, {Name: "pooled", Backend: config.OVN, Pools: []lb.Dialect{lb.Native}}, {Name: "metallb", Backend: config.Announce},
}}

// newWorld has kube-dc's own example: project dev of shalb, with a default network and
// another one. Without a server the database is away.
func newWorld(t testing.TB, s *northbound.Server) *world {
	t.Helper()
	endpoint := ovsdb.Endpoint{Network: "unix", Address: "/nowhere/nb.sock"}
	if s != nil {
		endpoint.Address = s.Socket()
	}
	db, err := northbounddb.New(northbounddb.Options{Cluster: "c1", Endpoints: []ovsdb.Endpoint{endpoint}, Log: slog.New(slog.NewTextHandler(process.LogOf(t, "the database's client"), nil))})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, Placer: newPlacer(configuration, db), book: eip.NewBook(true)}
	w.projects = w
	w.wake = func(keys ...types.NamespacedName) {
		for _, k := range keys {
			w.woken = append(w.woken, k.Name)
		}
	}
	if s != nil {
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { db.Run(ctx) })
		t.Cleanup(func() { stop(); running.Wait() })
		netns.Eventually(t, time.Minute, "connected", func() bool { return db.Away() == 0 })
	}
	w.book.Vpc(namespace, &kubeovn.Vpc{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: kubeovn.VpcSpec{Namespaces: []string{namespace}}})
	w.subnet("ext-cloud", kubedc.Cloud, "100.64.0.0/24", "100.64.0.1")
	w.subnet("ext-public", kubedc.Public, "168.119.17.48/28", "168.119.17.49")
	w.ovnEip("shalb-dev-ext-cloud", "ext-cloud", "100.64.0.2", nil)
	w.eip(kubedc.DefaultGateway, api.EIpSpec{ChildRef: "shalb-dev-ext-cloud"})
	return w
}

func (w *world) subnet(name, kind, cidr, gateway string) {
	w.book.Subnet(name, &kubeovn.Subnet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{kubedc.LabelNetworkType: kind}}, Spec: kubeovn.SubnetSpec{CIDRBlock: cidr, Gateway: gateway, Vlan: "v"}})
}

func (w *world) ovnEip(name, subnet, address string, labels map[string]string) {
	w.book.OvnEip(name, &kubeovn.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("ovn-" + name), Labels: labels},
		Spec: kubeovn.OvnEipSpec{ExternalSubnet: subnet, Type: "lrp"}, Status: kubeovn.OvnEipStatus{Ready: true, V4IP: address}})
}

// eip makes an EIp of the project.
func (w *world) eip(name string, spec api.EIpSpec) *api.EIp {
	e := &api.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("eip-" + name)}, Spec: spec}
	w.book.EIp(types.NamespacedName{Namespace: namespace, Name: name}, e)
	return e
}

// own makes an EIp that has an address of a network.
func (w *world) own(name, subnet, address string) {
	e := w.eip(name, api.EIpSpec{})
	w.ovnEip(eip.OvnEipName(e), subnet, address, map[string]string{eip.LabelNamespace: namespace, eip.LabelName: name, eip.LabelUID: string(e.UID)})
}

// service asks for the address of an EIp, or for one of its own.
func service(eip string, backends ...string) *lb.Want {
	w := &lb.Want{Service: lb.Service{Key: types.NamespacedName{Namespace: namespace, Name: "web"}, UID: "u1", LoadBalancer: true, Annotations: map[string]string{}}}
	w.Service.Families = []lb.Family{lb.IPv4}
	w.Service.Ports = []lb.FrontendPort{{Port: lb.Port{Protocol: "TCP", Number: 80}, Name: "http"}}
	if eip != "" {
		w.Service.Annotations[kubedc.AnnotationEIp] = eip
	}
	for _, b := range backends {
		at := netip.MustParseAddrPort(b)
		w.Endpoints = append(w.Endpoints, lb.Endpoint{Address: at.Addr(), Ready: true, Serving: true, Ports: map[lb.EndpointPort]uint16{{Name: "http", Protocol: "TCP"}: at.Port()}})
	}
	return w
}

func (w *world) places(s *lb.Want) ovn.Place {
	w.t.Helper()
	p, err := w.Place(w.t.Context(), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}
