package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/sandbox"
	standin "fairlead.io/sandbox/kubeovn"
	"fairlead.io/test/kit/northbound"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

const project = "shalb-dev"

// kubeDC is an API server with a project of kube-dc, OVN's northbound database, and what
// stands in for kube-ovn.
type kubeDC struct {
	*world
	nb    *northbound.Server
	where string // the database's endpoint
}

func newKubeDC(t *testing.T) *kubeDC {
	t.Helper()
	api, err := sandbox.StartAPI(t.Context(), sandbox.Options{Audit: true, NoControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := &kubeDC{world: &world{T: t, api: api, c: newClient(t, api.RESTConfig())}}
	address := rig.FreeAddress(t)
	host, port, _ := strings.Cut(address, ":")
	w.nb, w.where = northbound.Start(t, "ptcp:"+port+":"+host), "tcp:"+address
	w.nb.Ctl("init")
	w.nb.Northd()
	w.nb.Ctl("lr-add", project, "--", "ls-add", project+"-default",
		"--", "lrp-add", project, "inside", "02:00:00:00:00:01", "10.1.0.1/16",
		"--", "lrp-add", project, project+"-ext-public", "ae:d6:b9:e1:76:78", "168.119.17.51/28", "--", "lrp-set-gateway-chassis", project+"-ext-public", "ch1")
	for _, crd := range standin.CRDs() {
		w.create(crd)
	}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: project}})
	w.create(w.object("kubeovn.io/v1", "Subnet", "", "ext-public", map[string]any{"cidrBlock": "168.119.17.48/28", "gateway": "168.119.17.49", "vlan": "v", "excludeIps": []any{"168.119.17.50"}}, "network.kube-dc.com/external-network-type", "public"))
	w.create(w.object("kubeovn.io/v1", "Subnet", "", "ext-cloud", map[string]any{"cidrBlock": "100.64.0.0/24", "gateway": "100.64.0.1", "vlan": "v"}, "network.kube-dc.com/external-network-type", "cloud"))
	w.create(w.object("kubeovn.io/v1", "Vpc", "", project, map[string]any{"namespaces": []any{project}, "enableExternal": true, "extraExternalSubnets": []any{"ext-public"}}))
	w.create(w.object("kubeovn.io/v1", "OvnEip", "", project+"-ext-public", map[string]any{"externalSubnet": "ext-public", "type": "lrp", "v4Ip": "168.119.17.51"}))
	w.create(w.object("kube-dc.com/v1", "EIp", project, "default-gw", map[string]any{"childRef": project + "-ext-public"}))
	ovn, err := standin.New(api.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ovn.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("kube-ovn: %v", err)
		}
	})
	return w
}

func (w *kubeDC) object(version, kind, namespace, name string, spec map[string]any, labels ...string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind(version, kind))
	o.SetNamespace(namespace)
	o.SetName(name)
	for i := 0; i+1 < len(labels); i += 2 {
		o.SetLabels(map[string]string{labels[i]: labels[i+1]})
	}
	return o
}

// create makes an object as soon as its kind is served.
func (w *kubeDC) create(o client.Object) {
	w.Helper()
	eventually(w.T, fmt.Sprintf("%T %s is made", o, o.GetName()), func(ctx context.Context) error { return client.IgnoreAlreadyExists(w.c.Create(ctx, o)) })
}

// install runs a command of a guide, which is for releases whose database is where kube-ovn
// has it.
func (w *kubeDC) install(guide, line string) {
	w.Helper()
	text, err := os.ReadFile(tree.Path("docs/guides", guide))
	if err != nil {
		w.Fatal(err)
	}
	if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\\\n", "")), " "), line) {
		w.Errorf("%s does not say %q", guide, line)
	}
	line = strings.TrimSuffix(strings.TrimPrefix(line, "helm "), " --wait") // there are no nodes
	args := strings.Fields(strings.ReplaceAll(line, "'", ""))
	if strings.Contains(line, "ovn.enabled") {
		args = append(args, "--set", "ovn.northbound={"+w.where+"}")
	}
	w.helm(args...)
}

// start runs a release's controller with its arguments, its configuration and its rights.
func (w *kubeDC) start(namespace, name string) *process.Process {
	w.Helper()
	dir := w.TempDir()
	var deployment appsv1.Deployment
	var configuration corev1.ConfigMap
	if err := w.c.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name + "-controller"}, &deployment); err != nil {
		w.Fatal(err)
	}
	if err := w.c.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &configuration); err != nil {
		w.Fatal(err)
	}
	file := filepath.Join(dir, "fairlead.yaml")
	if err := os.WriteFile(file, []byte(configuration.Data["fairlead.yaml"]), 0o600); err != nil {
		w.Fatal(err)
	}
	health := rig.FreeAddress(w.T)
	pod := deployment.Spec.Template.Spec
	args := append(slices.Clone(pod.Containers[0].Args), "--config="+file, "--namespace="+namespace, "--leader-elect-namespace="+namespace,
		"--health-address="+health, "--metrics-address="+rig.FreeAddress(w.T),
		"--kubeconfig="+kubeconfigOf(w.T, w.api, w.c, namespace, pod.ServiceAccountName, filepath.Join(dir, "kubeconfig")))
	p := process.Start(w, exec.Command(tree.Binary(w, "fairlead"), args...))
	eventually(w.T, name+" is ready", func(ctx context.Context) error {
		return get(ctx, "http://"+health+"/readyz", "", http.StatusOK)
	})
	return p
}

// suffice wants nothing to have been forbidden, and nothing else to have failed. That the
// database is not connected in the first moment is no failure.
func (w *kubeDC) suffice(p *process.Process) {
	w.Helper()
	for line := range strings.Lines(p.Log.String()) {
		if strings.Contains(line, "forbidden") || strings.Contains(line, `"ERROR"`) && !strings.Contains(line, "database unavailable: not connected yet") {
			w.Errorf("the rights of the release do not suffice: %s", line)
		}
	}
}

// services makes one Service of each kind: of MetalLB's class, of a project, and of a class
// that nobody serves.
func (w *kubeDC) services() {
	w.Helper()
	w.create(poolObject("envoy-gateway-pool"))
	for name, class := range map[string]*string{"envoy": ptr.To("metallb"), "etcd-lb": nil, "other": ptr.To("example.com/other")} {
		w.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: name},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class, Ports: []corev1.ServicePort{{Name: "client", Port: 2379}}}})
		w.create(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("client"), Port: ptr.To(int32(31416))}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.40"}}}})
	}
}

func (w *kubeDC) has(name, address string) {
	w.Helper()
	eventually(w.T, name+" has "+address, func(ctx context.Context) error {
		var s corev1.Service
		err := w.c.Get(ctx, client.ObjectKey{Namespace: project, Name: name}, &s)
		if in := s.Status.LoadBalancer.Ingress; err == nil && (len(in) != 1 || in[0].IP != address) {
			err = fmt.Errorf("its status is %+v", s.Status)
		}
		return err
	})
}

// writers returns the accounts of controllers that wrote to a Service, or an event about it.
func (w *kubeDC) writers(service string) []string {
	w.Helper()
	counts, err := w.api.WriteCounts()
	if err != nil {
		w.Fatal(err)
	}
	var out []string
	for c := range counts {
		account, is := strings.CutPrefix(c.User, "system:serviceaccount:")
		about := c.Resource == "services" && c.Name == service || c.Resource == "events" && strings.HasPrefix(c.Name, service+".")
		if is && about && !slices.Contains(out, account) {
			out = append(out, account)
		}
	}
	slices.Sort(out)
	return out
}

// untouched wants what was written to Services to be by these accounts, and the other one
// to be as it was made.
func (w *kubeDC) untouched(metallb, ovn string) {
	w.Helper()
	eventually(w.T, "all has been written", func(context.Context) error {
		if a, b := w.writers("envoy"), w.writers("etcd-lb"); !slices.Equal(a, []string{metallb}) || !slices.Equal(b, []string{ovn}) {
			return fmt.Errorf("MetalLB's was written by %v, the project's by %v", a, b)
		}
		return nil
	})
	var s corev1.Service
	if err := w.c.Get(w.Context(), client.ObjectKey{Namespace: project, Name: "other"}, &s); err != nil {
		w.Fatal(err)
	}
	if by := w.writers("other"); len(by) > 0 || len(s.Status.Conditions) > 0 || len(s.Finalizers) > 0 {
		w.Errorf("a Service of nobody's class was written by %v: %+v", by, s)
	}
}

// companion wants the headless Service of another to have a port.
func (w *kubeDC) companion(name string, port int32) {
	w.Helper()
	eventually(w.T, fmt.Sprintf("%s-ext has port %d", name, port), func(ctx context.Context) error {
		var s corev1.Service
		var slice discoveryv1.EndpointSlice
		key := client.ObjectKey{Namespace: project, Name: name + "-ext"}
		if err := errors.Join(w.c.Get(ctx, key, &s), w.c.Get(ctx, key, &slice)); err != nil {
			return err
		}
		if s.Spec.Ports[0].Port != port || *slice.Ports[0].Port != port || len(slice.Endpoints) != 1 {
			return fmt.Errorf("%+v, %+v", s.Spec, slice)
		}
		return nil
	})
}

// serves sees MetalLB's class and the project's Services served, changed and removed.
func (w *kubeDC) serves(metallb, ovn string, running ...*process.Process) {
	w.Helper()
	w.services()
	w.has("envoy", "192.0.2.0")
	w.has("etcd-lb", "168.119.17.52")
	w.untouched(metallb, ovn)
	if rows := w.nb.Ctl("--bare", "--columns=name,vips", "list", "Load_Balancer"); strings.TrimSpace(rows) != project+"-etcd-lb-tcp\n168.119.17.52:2379=10.1.0.40:31416" {
		w.Errorf("OVN has %q", rows)
	}

	// Whatever rights are needed for the companion, for an EIp of another network, for its
	// end, and for healing.
	w.companion("etcd-lb", 2379)
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "etcd-lb"}}
	if err := w.c.Patch(w.Context(), s, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ports":[{"name":"client","port":2380}]}}`))); err != nil {
		w.Fatal(err)
	}
	w.companion("etcd-lb", 2380)
	w.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "cloud", Annotations: map[string]string{"network.kube-dc.com/external-network-type": "cloud"}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}})
	eventually(w.T, "the router has a port in the other network", func(ctx context.Context) error {
		vpc := w.object("kubeovn.io/v1", "Vpc", "", project, nil)
		err := w.c.Get(ctx, client.ObjectKeyFromObject(vpc), vpc)
		if subnets, _, _ := unstructured.NestedStringSlice(vpc.Object, "spec", "extraExternalSubnets"); err == nil && !slices.Contains(subnets, "ext-cloud") {
			err = fmt.Errorf("the Vpc has %v", subnets)
		}
		return err
	})
	eventually(w.T, "its EIp says who uses it", func(ctx context.Context) error { // else its end is waited for
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "kube-dc.com", Version: "v1", Kind: "EIpList"})
		err := w.c.List(ctx, list)
		for _, e := range list.Items {
			if owners, _, _ := unstructured.NestedSlice(e.Object, "status", "owners"); strings.HasPrefix(e.GetName(), "slb-cloud-") && len(owners) == 1 {
				return nil
			}
		}
		return errors.Join(err, errors.New("there is none that does"))
	})
	w.nb.Ctl("lb-del", project+"-etcd-lb-tcp")
	eventually(w.T, "the load balancer is there again", func(context.Context) error {
		if rows := w.nb.Ctl("--bare", "--columns=vips", "find", "Load_Balancer", "name="+project+"-etcd-lb-tcp"); !strings.Contains(rows, "168.119.17.52:2380") {
			return fmt.Errorf("OVN has %q", rows)
		}
		return nil
	})
	for _, name := range []string{"envoy", "etcd-lb", "other", "cloud"} {
		if err := w.c.Delete(w.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: name}}); err != nil {
			w.Fatal(err)
		}
	}
	eventually(w.T, "nothing is left of Services that are gone", func(ctx context.Context) error {
		for kind, want := range map[schema.GroupVersionKind]int{
			{Group: "kube-dc.com", Version: "v1", Kind: "EIpList"}: 1, {Group: "kubeovn.io", Version: "v1", Kind: "OvnEipList"}: 2,
		} {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind)
			if err := w.c.List(ctx, list); err != nil || len(list.Items) != want {
				return fmt.Errorf("%d objects in %s, %w", len(list.Items), kind.Kind, err)
			}
		}
		if rows := w.nb.Ctl("--bare", "--columns=name", "list", "Load_Balancer"); strings.TrimSpace(rows) != "" {
			return fmt.Errorf("OVN has %q", rows)
		}
		return nil
	})
	for _, p := range running {
		w.suffice(p)
		p.Kill()
	}
}

// MetalLB's class and kube-dc's Services are served in one cluster: by two releases that
// never touch each other's Services, and by one.
func TestKubeDCBesideMetalLB(t *testing.T) {
	t.Parallel()
	w := newKubeDC(t)
	w.install("migrate-from-metallb.md", "helm install metallb charts/fairlead --namespace metallb-system --create-namespace --set loadBalancerClass=metallb --wait")
	w.install("kube-dc.md", "helm install fairlead charts/fairlead --namespace kube-system --set ovn.enabled=true")
	w.serves("metallb-system:metallb-fairlead", "kube-system:fairlead", w.start("metallb-system", "metallb-fairlead"), w.start("kube-system", "fairlead"))

	w.helm("uninstall", "metallb", "--namespace", "metallb-system")
	w.helm("uninstall", "fairlead", "--namespace", "kube-system")
}

func TestKubeDCAndMetalLBInOneRelease(t *testing.T) {
	t.Parallel()
	w := newKubeDC(t)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metallbNamespace}})
	w.install("kube-dc.md", "helm install fairlead charts/fairlead --namespace kube-system --set loadBalancerClass=metallb --set metallb.namespace=metallb-system --set ovn.enabled=true")
	w.serves("kube-system:fairlead", "kube-system:fairlead", w.start("kube-system", "fairlead"))
}

// With pools neither kube-ovn nor kube-dc is needed, and no right to write anything of
// theirs.
func TestOVNWithPools(t *testing.T) {
	t.Parallel()
	w := newKubeDC(t)
	w.install("kube-dc.md", "helm install fairlead charts/fairlead --namespace fairlead-system --create-namespace --set ovn.enabled=true --set 'ovn.northbound={tcp:192.0.2.11:6641}' --set 'classes[0].name=,classes[0].backend=ovn,classes[0].pools={native}'")
	awaitKinds(t, w.c)
	w.create(&v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"168.119.17.60-168.119.17.61"}}})
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{"fairlead.io/ovn-router": project, "fairlead.io/ovn-switches": project + "-default"}}})
	p := w.start(namespace, "fairlead")
	for _, in := range []string{"shop", project} {
		w.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "web"},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "client", Port: 80}}}})
	}
	eventually(t, "OVN has both", func(context.Context) error {
		rows := w.nb.Ctl("--bare", "--columns=name,vips", "list", "Load_Balancer")
		if !strings.Contains(rows, "shop-web-tcp\n168.119.17.6") || !strings.Contains(rows, "shalb-dev-web-tcp\n168.119.17.6") {
			return fmt.Errorf("it has %q", rows)
		}
		return nil
	})
	e, err := w.eip(t.Context(), "default-gw")
	if err != nil || len(e.GetFinalizers()) > 0 {
		t.Errorf("an EIp that is nobody's was written: %v, %v", e, err)
	}
	w.suffice(p)
}

// What kube-dc-manager has made stays as it is, there and back: address, EIp, OvnEip and
// row. What Fairlead leaves behind keeps nobody from deleting it.
func TestKubeDCThereAndBack(t *testing.T) {
	t.Parallel()
	const guide = "migrate-from-kube-dc.md"
	w := newKubeDC(t)
	w.leftByManager("web", "168.119.17.55")
	before := w.row("web")
	w.install(guide, "helm upgrade --install fairlead charts/fairlead --namespace kube-system --set ovn.enabled=true --set ovn.eips=serve --set 'classes[0].name=,classes[0].backend=ovn,classes[1].name=fairlead.io/ovn,classes[1].backend=ovn'")
	p := w.start("kube-system", "fairlead")
	eventually(t, "the row is taken over", func(context.Context) error {
		if row := w.row("web"); !strings.Contains(row, "vendor=fairlead") {
			return fmt.Errorf("it is %s", row)
		}
		return nil
	})
	w.has("web", "168.119.17.55")
	if row := w.row("web"); row[:36] != before[:36] || !strings.Contains(row, "168.119.17.55:80=10.1.0.40:31416") {
		t.Errorf("the row was %s, and is %s", before, row)
	}
	eventually(t, "the EIp is served", func(ctx context.Context) error {
		if e, err := w.eip(ctx, "slb-web-bc6y7"); err != nil || !slices.Equal(e.GetFinalizers(), []string{"fairlead.io/eip"}) {
			return fmt.Errorf("%v, %w", e, err)
		}
		return nil
	})
	p.Kill()

	w.install(guide, "helm upgrade fairlead charts/fairlead --namespace kube-system --reuse-values --set ovn.eips=use")
	back := w.start("kube-system", "fairlead")
	eventually(t, "no EIp has a finalizer", func(ctx context.Context) error {
		for _, name := range []string{"default-gw", "slb-web-bc6y7"} {
			if e, err := w.eip(ctx, name); err != nil || len(e.GetFinalizers()) > 0 {
				return fmt.Errorf("%v, %w", e, err)
			}
		}
		return nil
	})
	w.has("web", "168.119.17.55")
	w.suffice(p)
	w.suffice(back)
	back.Kill()
	w.helm("uninstall", "fairlead", "--namespace", "kube-system")
	w.has("web", "168.119.17.55")
	e, err := w.eip(t.Context(), "slb-web-bc6y7")
	if err != nil || w.row("web")[:36] != before[:36] {
		t.Errorf("%v, %v, row %s", e, err, w.row("web"))
	}
	if err := w.c.Delete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if e, err := w.eip(t.Context(), e.GetName()); err == nil {
		t.Errorf("it cannot be deleted: %v", e)
	}
}

// leftByManager has a Service with what kube-dc's manager makes for it.
func (w *kubeDC) leftByManager(name, address string) {
	w.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "client", Port: 80}}}}
	w.create(s)
	w.create(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("client"), Port: ptr.To(int32(31416))}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.40"}}}})
	ovn := "eip-slb-" + name + "-bc6y7"
	w.create(w.object("kubeovn.io/v1", "OvnEip", "", ovn, map[string]any{"externalSubnet": "ext-public", "type": "lrp", "v4Ip": address}))
	eip := w.object("kube-dc.com/v1", "EIp", project, "slb-"+name+"-bc6y7", map[string]any{})
	w.create(eip)
	status := map[string]any{"status": map[string]any{"ipAddress": address, "ovnEIpRef": ovn, "ownershipType": "Exclusive", "ready": true, "deleteReleased": true,
		"owners": []any{map[string]any{"type": "Service", "ownerRef": name}}}}
	w.patchStatus(eip, status)
	w.patchStatus(s, map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": address}}}}})
	row := project + "-" + name + "-tcp"
	w.nb.Ctl("lb-add", row, address+":80", "10.1.0.40:31416", "tcp", "--", "lr-lb-add", project, row, "--", "ls-lb-add", project+"-default", row,
		"--", "set", "Load_Balancer", row, "external_ids:vendor=kube-ovn")
}

func (w *kubeDC) patchStatus(o client.Object, patch map[string]any) {
	w.Helper()
	raw, err := json.Marshal(patch)
	if err == nil {
		err = w.c.Status().Patch(w.Context(), o, client.RawPatch(types.MergePatchType, raw))
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *kubeDC) eip(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	o := w.object("kube-dc.com/v1", "EIp", project, name, nil)
	return o, w.c.Get(ctx, client.ObjectKeyFromObject(o), o)
}

// row is the Service's, with its UUID in the first 36 characters.
func (w *kubeDC) row(service string) string {
	w.Helper()
	return w.nb.Ctl("--no-headings", "--format=csv", "--data=bare", "--columns=_uuid,name,vips,external_ids", "find", "Load_Balancer", "name="+project+"-"+service+"-tcp")
}
