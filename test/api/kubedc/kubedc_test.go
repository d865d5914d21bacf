package kubedc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	format "fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/projects"
	"fairlead.io/sandbox"
	standin "fairlead.io/sandbox/kubeovn"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	crlog.SetLogger(logr.Discard()) // controllers have a log of their own
	os.Exit(rig.Main(m, sandbox.Options{ManagerArgs: []string{"--controllers=garbage-collector-controller,endpointslice-mirroring-controller"}}, &theRig))
}

const project = "shalb-dev"

// world is a project on the API server, kube-ovn, and a backend.
type world struct {
	t      *testing.T
	client client.Client
	ovn    *standin.Allocator
	p      *projects.Projects
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// created is when the last Service was.
	created time.Time

	mu   sync.Mutex
	rows map[types.NamespacedName][]eip.Row
	says map[types.NamespacedName]string
}

// newWorld has a fresh project: the names are the document's own.
func newWorld(t *testing.T, serves bool) *world {
	ctx := t.Context()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, api.AddToScheme, kubeovn.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(theRig.API.RESTConfig(), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, client: c, rows: map[types.NamespacedName][]eip.Row{}, says: map[types.NamespacedName]string{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())}
	for _, crd := range standin.CRDs() {
		if err := theRig.Client.Create(ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	rig.Eventually(t, "the kinds are served", func() error {
		for _, l := range []client.ObjectList{&api.EIpList{}, &api.FIpList{}, &api.ProjectList{}, &kubeovn.OvnEipList{}, &kubeovn.SubnetList{}, &kubeovn.VpcList{}} {
			if err := c.List(ctx, l); err != nil {
				return err
			}
		}
		return nil
	})
	external := func(name, kind, cidr, gateway string) *kubeovn.Subnet {
		return &kubeovn.Subnet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{format.LabelNetworkType: kind}}, Spec: kubeovn.SubnetSpec{CIDRBlock: cidr, Gateway: gateway, Vlan: "v"}}
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: project}},
		external("ext-public", format.Public, "168.119.17.48/28", "168.119.17.49"), external("ext-cloud", format.Cloud, "100.64.0.0/24", "100.64.0.1"),
		&kubeovn.Vpc{ObjectMeta: metav1.ObjectMeta{Name: project}, Spec: kubeovn.VpcSpec{Namespaces: []string{project}, EnableExternal: true, ExtraExternalSubnets: []string{"ext-public"}}},
		&api.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: format.DefaultGateway}, Spec: api.EIpSpec{ChildRef: "shalb-dev-ext-public"}},
	} {
		if err := c.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	if w.ovn, err = standin.New(theRig.API.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	w.p, err = projects.New(projects.Options{REST: theRig.API.RESTConfig(), Log: slog.New(slog.NewTextHandler(process.LogOf(t, "projects"), nil)), Writes: true, Serves: serves, Claim: claim, Rows: w.rowsAt})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for name, run := range map[string]func(context.Context) error{"kube-ovn": w.ovn.Run, "projects": func(ctx context.Context) error { return w.p.Run(ctx, w.wake) }, "the backend": w.serve} {
		all.Go(func() {
			if err := run(running); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		w.queue.ShutDown()
		all.Wait()
	})
	return w
}

func claim(s *lb.Service) (eip.Claim, bool) {
	wish, problems := format.Read(s, nil)
	return eip.Claim{Service: s, Wish: wish, Invalid: len(problems) > 0}, s.LoadBalancer
}

func (w *world) rowsAt(a netip.Addr, _ []lb.Port) (out []eip.Row, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, rows := range w.rows {
		for _, r := range rows {
			if r.Address == a {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

func (w *world) wake(keys ...types.NamespacedName) {
	if len(keys) == 0 {
		var list corev1.ServiceList
		_ = w.client.List(context.Background(), &list, client.InNamespace(project))
		for _, s := range list.Items {
			keys = append(keys, types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
		}
	}
	for _, key := range keys {
		w.queue.Add(key)
	}
}

// serve is the backend: rows and status of one Service after the other.
func (w *world) serve(ctx context.Context) error {
	for {
		key, end := w.queue.Get()
		if end {
			return nil
		}
		if err := w.sync(ctx, key); err != nil {
			w.queue.AddRateLimited(key)
		} else {
			w.queue.Forget(key)
		}
		w.queue.Done(key)
	}
}

func (w *world) sync(ctx context.Context, key types.NamespacedName) error {
	var s corev1.Service
	err := w.client.Get(ctx, client.ObjectKey(key), &s)
	if apierrors.IsNotFound(err) {
		w.mu.Lock()
		delete(w.rows, key)
		w.mu.Unlock()
		w.p.Touch(key)
		return nil
	}
	if err != nil {
		return err
	}
	v, err := w.p.View(kubeapi.Service(&s))
	if err != nil {
		return err
	}
	b := v.Service(s.UID)
	if err := w.p.Do(ctx, b.Plan); err != nil {
		return err
	}
	w.mu.Lock()
	var rows []eip.Row
	for _, a := range b.Addresses {
		rows = append(rows, eip.Row{Service: key, Address: a, Ports: kubeapi.Service(&s).PortList()})
	}
	changed := fmt.Sprint(rows) != fmt.Sprint(w.rows[key])
	w.rows[key], w.says[key] = rows, ""
	if b.Reason != nil {
		w.says[key] = b.Reason.String()
	}
	w.mu.Unlock()
	var ingress []corev1.LoadBalancerIngress
	for _, a := range b.Addresses {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: a.String()})
	}
	if had := kubeapi.Service(&s).Published(); fmt.Sprint(had) != fmt.Sprint(b.Addresses) {
		s.Status.LoadBalancer.Ingress = ingress
		if err := w.client.Status().Update(ctx, &s); err != nil {
			return err
		}
	}
	if changed {
		w.p.Touch(key)
		w.wake()
	}
	return nil
}

func (w *world) create(name string, port int32, annotations map[string]string) types.NamespacedName {
	w.t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: name, Annotations: annotations},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: port}}}}
	// Which of two is older is known to the second.
	rig.Eventually(w.t, "a second after the last one", func() error {
		if !time.Now().Truncate(time.Second).After(w.created) {
			return errors.New("it is too early")
		}
		return nil
	})
	if err := w.client.Create(w.t.Context(), s); err != nil {
		w.t.Fatal(err)
	}
	w.created = s.CreationTimestamp.Time
	key := types.NamespacedName{Namespace: project, Name: name}
	w.wake(key)
	return key
}

func (w *world) delete(key types.NamespacedName) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}); err != nil {
		w.t.Fatal(err)
	}
	w.wake(key)
}

// has waits until a Service has an address, and the backend says that; "" is none.
func (w *world) has(key types.NamespacedName, address, says string) {
	w.t.Helper()
	rig.Eventually(w.t, fmt.Sprintf("%s has %q", key.Name, address), func() error {
		var s corev1.Service
		if err := w.client.Get(w.t.Context(), client.ObjectKey(key), &s); err != nil {
			return err
		}
		var got string
		for _, i := range s.Status.LoadBalancer.Ingress {
			got += i.IP
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if got != address || !strings.HasPrefix(w.says[key], says) || says == "" && w.says[key] != "" {
			return fmt.Errorf("has %q: %s", got, w.says[key])
		}
		return nil
	})
}

// eip waits until an EIp is as it should be; nil is not there.
func (w *world) eip(name string, check func(*api.EIp) error) {
	w.t.Helper()
	rig.Eventually(w.t, "EIp "+name, func() error {
		var e api.EIp
		err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: project, Name: name}, &e)
		if apierrors.IsNotFound(err) {
			return check(nil)
		}
		if err != nil {
			return err
		}
		if err := check(&e); err != nil {
			return fmt.Errorf("%w: %+v", err, e.Status)
		}
		return nil
	})
}

func gone(e *api.EIp) error {
	if e != nil {
		return errors.New("it is there")
	}
	return nil
}

func owned(kind api.Ownership, address string, owners ...string) func(*api.EIp) error {
	return func(e *api.EIp) error {
		if e == nil {
			return errors.New("it is not there")
		}
		var names []string
		for _, o := range e.Status.Owners {
			names = append(names, o.OwnerRef)
		}
		if e.Status.OwnershipType != kind || e.Status.IPAddress != address || !e.Status.Ready || fmt.Sprint(names) != fmt.Sprint(owners) {
			return errors.New("it is otherwise")
		}
		return nil
	}
}

func TestServe(t *testing.T) {
	w := newWorld(t, true)
	t.Log("the gateway")
	w.eip(format.DefaultGateway, owned(api.Released, "168.119.17.50"))
	t.Log("an EIp of its own")
	web := w.create("web", 80, nil)
	w.has(web, "168.119.17.51", "")
	var s corev1.Service
	if err := w.client.Get(t.Context(), client.ObjectKey(web), &s); err != nil {
		t.Fatal(err)
	}
	auto := eip.AutoName(web, s.UID, format.Wish{})
	var ref string
	w.eip(auto, func(e *api.EIp) error {
		err := owned(api.Exclusive, "168.119.17.51", "shalb-dev/web")(e)
		if err == nil {
			ref = e.Status.OvnEIpRef
		}
		return err
	})
	t.Log("two at the gateway, with one port")
	older := w.create("older", 443, map[string]string{format.AnnotationDefaultGateway: "true"})
	w.has(older, "168.119.17.50", "")
	younger := w.create("younger", 443, map[string]string{format.AnnotationEIp: format.DefaultGateway})
	w.has(younger, "", "PortConflict: Port TCP 443 at EIp \"default-gw\" belongs to Service shalb-dev/older")
	w.delete(older)
	w.has(younger, "168.119.17.50", "")
	w.eip(format.DefaultGateway, owned(api.Exclusive, "168.119.17.50", "shalb-dev/younger"))

	t.Log("an EIp that comes later, in the other network")
	late := w.create("late", 80, map[string]string{format.AnnotationEIp: "mine"})
	w.has(late, "", "EIpMissing")
	if err := w.client.Create(t.Context(), &api.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "mine"}, Spec: api.EIpSpec{ExternalNetworkType: format.Cloud}}); err != nil {
		t.Fatal(err)
	}
	w.has(late, "100.64.0.3", "")
	var vpc kubeovn.Vpc
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: project}, &vpc); err != nil || fmt.Sprint(vpc.Spec.ExtraExternalSubnets) != "[ext-public ext-cloud]" {
		t.Errorf("Vpc %+v, %v", vpc.Spec, err)
	}

	t.Log("somebody deletes an OvnEip: the same address comes back")
	if err := w.client.Delete(t.Context(), &kubeovn.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: ref}}); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "another OvnEip has the address", func() error {
		var o kubeovn.OvnEip
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: ref}, &o); err != nil {
			return err
		}
		if o.DeletionTimestamp != nil || !o.Status.Ready || o.Annotations[eip.AnnotationAddress] != "168.119.17.51" || o.Status.NAT != "" || o.Spec.Type != "lrp" {
			return fmt.Errorf("it is %+v", o)
		}
		return nil
	})
	w.has(web, "168.119.17.51", "")

	t.Log("a full subnet is waited for")
	w.ovn.Full.Store(true)
	more := w.create("more", 80, nil)
	w.ovn.Full.Store(false)
	w.ovn.Look()
	w.has(more, "168.119.17.52", "")

	t.Log("all go; what the user made stays")
	for _, key := range []types.NamespacedName{web, younger, late, more} {
		w.delete(key)
	}
	w.eip(auto, gone)
	w.eip("mine", owned(api.Released, "100.64.0.3"))
	rig.Eventually(t, "no OvnEip is left over", func() error {
		var list kubeovn.OvnEipList
		if err := w.client.List(t.Context(), &list); err != nil || len(list.Items) != 3 {
			return fmt.Errorf("%d are there, %w", len(list.Items), err)
		}
		return nil
	})
	if err := w.client.Delete(t.Context(), &api.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "mine"}}); err != nil {
		t.Fatal(err)
	}
	w.eip("mine", gone)
}
