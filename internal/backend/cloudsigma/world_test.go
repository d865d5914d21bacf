package cloudsigma

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudsigma"
	"fairlead.io/internal/compat"
	dialect "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudsigma"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a simulated account with nodes, and a controller that serves Services
// there: the loop of package controller without an API server. It is used inside of a
// bubble of synctest.
type world struct {
	t       *testing.T
	sim     *simulated.Simulator
	cluster string

	backend  *Backend
	ledger   *ipam.Allocator
	yielded  map[types.UID]bool
	services []*corev1.Service
	nodes    []lb.Node
	servers  map[string]string // UUID by node
	ends     map[string][]lb.Endpoint
	told     []lb.Reason
	// restarts: every look is that of a new process.
	restarts bool
	// http is how the cloud is reached; nil: as it is.
	http http.RoundTripper
	// pods carry addresses, if they are not nil.
	pods Pods
	// oldPods are the nodes of pods that the original has left, by name.
	oldPods map[string]string
}

func newWorld(t *testing.T, k simulated.Knobs, nodes, addresses int) *world {
	t.Helper()
	sim := simulated.New(simulated.Options{Knobs: k})
	t.Cleanup(sim.Close)
	for i := range addresses {
		sim.Subscribe(netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)}))
	}
	w := clusterIn(t, sim, "prod")
	for i := range nodes {
		w.addNode(fmt.Sprintf("worker-%d", i+1), "dhcp")
	}
	return w
}

// clusterIn is one more cluster in an account.
func clusterIn(t *testing.T, sim *simulated.Simulator, name string) *world {
	t.Helper()
	w := &world{t: t, sim: sim, cluster: name, servers: map[string]string{}, ends: map[string][]lb.Endpoint{}}
	w.restart()
	return w
}

func (w *world) addNode(name, mode string) {
	w.t.Helper()
	s, err := w.sim.AddServer(simulated.NewServer{Name: name, NICs: []simulated.NewNIC{{Mode: mode, Addr4: "*"}}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.servers[name] = s.UUID
	w.backend.forget()
	w.nodes = append(w.nodes, lb.Node{Name: name, ProviderID: cloudsigma.ProviderID(s.UUID), Labels: map[string]string{}, Ready: true, Receives: true, Agent: true})
}

func (w *world) node(name string) *lb.Node {
	i := slices.IndexFunc(w.nodes, func(n lb.Node) bool { return n.Name == name })
	return &w.nodes[i]
}

// restart is a new process, which remembers nothing but what Services say.
func (w *world) restart() {
	w.t.Helper()
	token, err := cloud.NewToken(w.sim.Token())
	if err != nil {
		w.t.Fatal(err)
	}
	transport := w.http
	if transport == nil {
		transport = w.sim.Client().Transport
	}
	client, err := cloudsigma.New(cloudsigma.Options{Region: "zrh", Token: token, HTTP: transport})
	if err != nil {
		w.t.Fatal(err)
	}
	w.backend = New(Options{Client: client, Cluster: w.cluster, Log: slog.New(slog.DiscardHandler), Pods: w.pods, PodImage: "fairlead",
		OldPod: func(_ context.Context, name string) (string, error) { return w.oldPods[name], nil }})
	w.ledger, w.yielded = ipam.New(), map[types.UID]bool{}
	w.ledger.SetWords(map[lb.Dialect]lb.Words{dialect.Format: dialect.Dialect{}.Words(), lb.Native: native.Words})
	w.readPools()
	all := w.values()
	held, _ := w.backend.Import(w.t.Context(), all)
	for i := range all {
		s := &all[i]
		h, ok := held[s.UID]
		if !ok {
			h = w.backend.Held(s)
		}
		r := w.request(s)
		r.Evidence = h.Evidence
		w.ledger.Import(r, h.Addresses)
	}
	w.ledger.SettleAll()
}

func (w *world) readPools() {
	w.backend.forget() // no time may have passed
	for range 20 {     // a cloud that is away comes back
		pools, err := w.backend.Pools(w.t.Context(), w.values())
		if err == nil {
			w.ledger.SetPools(pools)
			nodes := map[netip.Addr]string{}
			for _, n := range w.nodes {
				for _, a := range n.Addresses {
					nodes[a] = n.Name
				}
			}
			w.ledger.SetOwners(ipam.Owners{Nodes: nodes})
			return
		}
		<-time.After(2 * time.Second)
	}
	w.t.Fatal("the pools cannot be read")
}

var readings = compat.Readings{
	{Dialect: native.Dialect{}, Reading: native.Dialect{}.Read(compat.Objects{})},
	{Dialect: dialect.Dialect{}, Reading: dialect.Dialect{}.Read(compat.Objects{})},
}

func (w *world) request(s *lb.Service) lb.Request {
	r := readings.Request(s, nil, compat.Class{Dialects: []lb.Dialect{dialect.Format}, Words: dialect.Format, Plans: true})
	if s.Deleting {
		reason := lb.Rebuilt(lb.Ready, "", true)
		r.Invalid = &reason
	}
	return r
}

func (w *world) values() (out []lb.Service) {
	for _, s := range w.services {
		out = append(out, *kubeapi.Service(s))
	}
	return out
}

type edit func(*corev1.Service)

func annotated(key, value string) edit {
	return func(s *corev1.Service) { s.Annotations[key] = value }
}

// create adds a Service; "shop/web" if name has no namespace.
func (w *world) create(name string, edits ...edit) *corev1.Service {
	key := kubeapi.ParseKey(name)
	if key.Name == "" {
		key = types.NamespacedName{Namespace: "shop", Name: name}
	}
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID(w.cluster + "/" + key.String()), ResourceVersion: "1",
			CreationTimestamp: metav1.Now(), Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, e := range edits {
		e(s)
	}
	w.services = append(w.services, s)
	return s
}

func (w *world) delete(s *corev1.Service) {
	now := metav1.Now()
	s.DeletionTimestamp = &now
}

// look is one look at a Service, and what the controller does with the outcome.
func (w *world) look(s *corev1.Service) (lb.Outcome, error) {
	w.t.Helper()
	if w.restarts {
		w.restart()
	}
	value := kubeapi.Service(s)
	want := lb.Want{Service: *value, Gone: value.Deleting, Nodes: slices.Clone(w.nodes), Endpoints: w.ends[s.Name], Peers: w.values()}
	want.Request = w.request(value)
	held := w.backend.Held(value)
	want.Request.Evidence = held.Evidence
	want.Request.Reallocate = want.Request.Reallocate || w.yielded[s.UID]
	want.DryRun = want.Request.DryRun
	want.Verdict, _ = w.ledger.Settle(want.Request, held.Addresses)
	out, err := w.backend.Sync(w.t.Context(), want)
	if out.Keep {
		w.write(s, &out)
		want.Service = *kubeapi.Service(s)
		out, err = w.backend.Sync(w.t.Context(), want)
	}
	w.yielded[s.UID] = out.Yields
	if out.Yields {
		w.readPools()
	}
	if !want.DryRun && !out.Passing {
		w.write(s, &out)
	}
	w.told = append(w.told, out.Tell...)
	if out.Reason.Code == "" && !out.Gone {
		w.t.Errorf("no reason: %+v", out)
	}
	if out.Gone && want.Gone && !slices.Contains(s.Finalizers, lb.CleanupFinalizer) {
		w.ledger.Forget(value.Key)
		w.backend.Forget(s.UID)
		w.services = slices.DeleteFunc(w.services, func(o *corev1.Service) bool { return o == s })
	}
	return out, err
}

func (w *world) write(s *corev1.Service, out *lb.Outcome) {
	w.t.Helper()
	p := kubeapi.Patch(kubeapi.Service(s), out, time.Now())
	if p.Empty() {
		return
	}
	raw, err := json.Marshal(s)
	if err != nil {
		w.t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(raw, p.Status, corev1.Service{})
	if err != nil {
		w.t.Fatal(err)
	}
	*s = corev1.Service{}
	if err := json.Unmarshal(merged, s); err != nil {
		w.t.Fatal(err)
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
}

// settle looks at all Services until nothing is left to do.
func (w *world) settle() {
	w.t.Helper()
	quiet := 0
	for range 300 {
		var wait time.Duration
		for _, s := range slices.Clone(w.services) {
			before := fmt.Sprint(s.Status, s.Finalizers)
			out, err := w.look(s)
			after := out.Again
			switch {
			case out.Gone:
			case after == 0 && (err != nil || out.Yields):
				after = 5 * time.Second
			case after == 0 && (before != fmt.Sprint(s.Status, s.Finalizers) || out.Done > 0):
				after = time.Millisecond // its change is an event
			}
			if after > 0 && (wait == 0 || after < wait) {
				wait = after
			}
		}
		if wait == 0 {
			if quiet++; quiet > 1 {
				return
			}
			continue
		}
		quiet = 0
		<-time.After(wait)
	}
	w.t.Fatalf("it does not come to an end:\n%s", w.requests())
}

// published are the addresses that a Service has in its status.
func published(s *corev1.Service) string {
	var out []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		out = append(out, i.IP)
	}
	return strings.Join(out, " ")
}

// placed is what the condition for the agents says.
func placed(s *corev1.Service) string { return kubeapi.Service(s).Carriers.String() }

// says is the reason on a Service.
func says(s *corev1.Service) lb.Code {
	if c := kubeapi.Service(s).Says; c != nil {
		return c.Code
	}
	return ""
}

// state is what there is in the cloud, without IDs.
func (w *world) state() []string {
	var out []string
	for _, s := range w.sim.Servers() {
		for _, a := range s.Statics() {
			out = append(out, fmt.Sprintf("NIC %s %s", s.Name, a))
		}
	}
	for _, t := range w.sim.Tags() {
		for _, r := range t.Resources {
			out = append(out, fmt.Sprintf("tag %s %s", t.Name, r))
		}
		if len(t.Resources) == 0 && dialect.IsServiceTag(t.Name) {
			out = append(out, "empty tag "+t.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out) // two clusters may have made two tags of one name
}

func (w *world) want(what string, lines ...string) {
	w.t.Helper()
	slices.Sort(lines)
	if got := w.state(); !slices.Equal(got, lines) {
		w.t.Errorf("%s: the cloud has\n\t%s\nwant\n\t%s\n%s", what, strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"), w.requests())
	}
}

// claimed are the lines of state for an address of a Service of this cluster.
func (w *world) claimed(address, tag, node string) []string {
	out := []string{"tag cluster:" + w.cluster + " " + address, "tag " + tag + " " + address, "tag managed-by:cloudsigma-ccm " + address}
	if node != "" {
		out = append(out, "NIC "+node+" "+address)
	}
	return out
}

func (w *world) requests() string {
	var lines []string
	for _, r := range w.sim.Log() {
		lines = append(lines, fmt.Sprintf("%s %s %s %d %s %s", r.Time.Format("04:05.000"), r.Method, r.Path, r.Status, r.Fault, r.Body))
	}
	return strings.Join(lines, "\n")
}

func (w *world) toldOf(code lb.Code) string {
	for _, r := range w.told {
		if r.Code == code {
			return r.Text
		}
	}
	return ""
}

func key(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// addServer adds a server that is no node.
func (w *world) addServer(name, mode, address string) {
	w.t.Helper()
	if _, err := w.sim.AddServer(simulated.NewServer{Name: name, NICs: []simulated.NewNIC{{Mode: mode, Addr4: address}}}); err != nil {
		w.t.Fatal(err)
	}
	w.backend.forget()
}

// attach and detach are what somebody else does.
func (w *world) attach(node, address string) {
	w.t.Helper()
	w.change(node, func(s *cloudsigma.Server) { s.Attach(netip.MustParseAddr(address)) })
}

func (w *world) detach(node string) {
	w.t.Helper()
	w.change(node, func(s *cloudsigma.Server) { s.NICs = s.NICs[:1] })
}

func (w *world) change(node string, f func(*cloudsigma.Server)) {
	w.t.Helper()
	stranger := clusterIn(w.t, w.sim, "stranger")
	if _, err := stranger.backend.client.Servers.Change(w.t.Context(), w.servers[node], func(s *cloudsigma.Server) error { f(s); return nil }); err != nil {
		w.t.Fatal(err)
	}
}
