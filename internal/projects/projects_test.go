package projects

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const namespace = "shalb-dev"

// world is Projects that a test tells of objects, instead of informers.
type world struct {
	*Projects
	t testing.TB

	mu    sync.Mutex
	woken []string
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, Projects: &Projects{
		o:    Options{Serves: true, Log: slog.New(slog.DiscardHandler), Claim: claim, Rows: func(netip.Addr, []lb.Port) ([]eip.Row, error) { return nil, nil }},
		book: eip.NewBook(true), own: ownWrites{}, bound: map[types.NamespacedName]eip.Binding{},
		queue: newQueue(), companions: newQueue(),
	}}
	t.Cleanup(w.queue.ShutDown)
	t.Cleanup(w.companions.ShutDown)
	w.wake = func(keys ...types.NamespacedName) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, k := range keys {
			w.woken = append(w.woken, k.Name)
		}
	}
	w.looked.Store(true)
	w.changed(nil, &kubeovn.Vpc{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: kubeovn.VpcSpec{Namespaces: []string{namespace}}})
	w.changed(nil, &kubeovn.Subnet{ObjectMeta: metav1.ObjectMeta{Name: "ext", Labels: map[string]string{kubedc.LabelNetworkType: kubedc.Public}}, Spec: kubeovn.SubnetSpec{CIDRBlock: "10.0.0.0/8"}})
	w.changed(nil, &kubeovn.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-ext"}, Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext"}, Status: kubeovn.OvnEipStatus{Ready: true, V4IP: "10.0.0.1"}})
	return w
}

func claim(s *lb.Service) (eip.Claim, bool) {
	wish, problems := kubedc.Read(s, nil)
	return eip.Claim{Service: s, Wish: wish, Invalid: len(problems) > 0}, s.LoadBalancer
}

func (w *world) wakes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.woken
	w.woken = nil
	return out
}

func service(name, version string, annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: version, Annotations: annotations},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}},
	}
}

func anEIp(name, version string) *api.EIp {
	return &api.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: version, CreationTimestamp: metav1.Now()}}
}

// look is what a controller does at each Service.
func (w *world) look(s *corev1.Service) eip.Binding {
	w.t.Helper()
	v, err := w.View(kubeapi.Service(s))
	if err != nil {
		w.t.Fatal(err)
	}
	return v.Service(s.UID)
}

// A look at a Service by somebody who has not heard yet that it is gone does not bring its
// claim back: nobody would take it away again, and its EIp would stay for ever.
func TestLookAtServiceThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := service("web", "7", nil)
		key := types.NamespacedName{Namespace: namespace, Name: "web"}
		w.changed(nil, s)
		w.look(s)
		w.changed(s, nil)
		for range 3 {
			w.look(s)
			if w.book.Claim(key) != nil || len(w.bound) > 0 {
				t.Fatal("the Service is gone, and has a claim")
			}
			<-time.After(departure / 4)
		}
		w.changed(nil, s)
		if w.book.Claim(key) == nil {
			t.Error("the Service was restored, and has no claim")
		}
		w.changed(s, nil)
		for range 3 {
			<-time.After(2 * departure)
			other := service(time.Now().String(), "8", nil)
			w.changed(nil, other)
			w.changed(other, nil)
		}
		if w.gone.has(s.UID) {
			t.Error("it is remembered for ever that a Service is gone")
		}
	})
}

// What is written here is known at once, and not taken back by older news.
func TestOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := types.NamespacedName{Namespace: namespace, Name: "a"}
		has := func(version string) {
			t.Helper()
			got := ""
			if e := w.book.GetEIp(key); e != nil {
				got = e.ResourceVersion
			}
			if got != version {
				t.Errorf("version %q is known, want %q", got, version)
			}
		}
		write := func(during func(), written client.Object, err error) {
			t.Helper()
			got := w.writing(anEIp("a", ""), func() (client.Object, error) { during(); return written, err })
			if !errors.Is(got, err) {
				t.Error(got)
			}
		}
		nothing := func() {}
		write(nothing, anEIp("a", "5"), nil)
		has("5")
		w.changed(nil, anEIp("a", "3"))
		has("5")
		w.changed(anEIp("a", "3"), anEIp("a", "5"))
		has("5")
		w.changed(anEIp("a", "5"), anEIp("a", "6"))
		has("6")
		write(nothing, anEIp("a", "9"), errors.New("refused"))
		has("6")
		write(func() { w.changed(anEIp("a", "6"), anEIp("a", "8")) }, anEIp("a", "7"), nil) // somebody was faster
		has("8")
		write(nothing, anEIp("a", "9"), nil)
		// Another object of that name was deleted before.
		before := anEIp("a", "2")
		before.UID = "other"
		w.changed(before, nil)
		has("9")
		w.changed(anEIp("a", "9"), nil)
		has("")
		// It is deleted before we hear that it was created.
		write(func() { w.changed(nil, anEIp("a", "11")); w.changed(anEIp("a", "11"), nil) }, anEIp("a", "11"), nil)
		has("")
		write(nothing, doomed(anEIp("a", "12"), time.Now()), nil)
		if w.book.GetEIp(key).DeletionTimestamp == nil {
			t.Error("the deletion is not known")
		}
		// After a while, what the API server says counts.
		<-time.After(confirmation + time.Second)
		w.changed(nil, anEIp("a", "4"))
		has("4")
		if len(w.own) != 0 {
			t.Errorf("left: %v", w.own)
		}
	})
}

// A Service is woken when it has something else than when it was looked at.
func TestServicesAreWoken(t *testing.T) {
	w := newWorld(t)
	named := service("named", "1", map[string]string{kubedc.AnnotationEIp: "a"})
	own := service("own", "1", nil)
	expect := func(what string, want ...string) {
		t.Helper()
		if got := w.wakes(); !slices.Equal(got, want) {
			t.Errorf("%s: %v are woken, want %v", what, got, want)
		}
	}
	for _, s := range []*corev1.Service{named, own} {
		w.changed(nil, s)
	}
	expect("nobody has looked")
	if b := w.look(named); b.Reason == nil || b.Reason.Code != eip.EIpMissing {
		t.Errorf("%+v", b)
	}
	b := w.look(own)
	if len(b.Plan.Steps) != 1 {
		t.Fatalf("%+v", b)
	}
	w.changed(nil, anEIp("unrelated", "1"))
	expect("an EIp of nobody")
	w.changed(nil, anEIp("a", "1"))
	expect("the EIp comes", "named")
	made := b.Plan.Steps[0].Body.(eip.Write).Object.(*api.EIp)
	made.UID, made.ResourceVersion, made.CreationTimestamp = "uid-made", "1", metav1.Now()
	w.changed(nil, made)
	expect("what it made itself")
	w.changed(made, nil)
	expect("it has to be made again", "own")
	w.look(own)
	w.changed(nil, made)
	w.look(own)
	w.changed(made, nil)
	expect("it was there, and has to be made again", "own")

	// The controller is ahead: it is what counts until it is confirmed.
	w.look(named)
	newer := service("named", "2", map[string]string{kubedc.AnnotationEIp: "b"})
	if b := w.look(newer); b.Reason == nil || b.Reason.Code != eip.EIpMissing {
		t.Errorf("%+v", b)
	}
	w.changed(named, named)
	w.changed(named, newer)
	expect("it was known before")
	w.changed(newer, service("named", "3", nil))
	expect("it asks for something else", "named")
}

// queued are the EIps that are to be looked at, in any order.
func (w *world) queued() map[string]bool {
	out := map[string]bool{}
	for w.queue.Len() > 0 {
		key, _ := w.queue.Get()
		w.queue.Done(key)
		out[key.String()] = true
	}
	return out
}

// An EIp is looked at when one in another namespace comes to name its OvnEip, or does not any
// more. What was made for an EIp that is gone is looked at as well.
func TestEIpsThatShare(t *testing.T) {
	w := newWorld(t)
	with := func(namespace, version, ovnEip string) *api.EIp {
		e := anEIp("a", version)
		e.Namespace, e.Status.OvnEIpRef = namespace, ovnEip
		return e
	}
	mine := with(namespace, "1", "o")
	w.changed(nil, mine)
	before := with("other", "2", "")
	w.changed(nil, before)
	w.queued()
	for i, ref := range []string{"o", ""} {
		after := with("other", strconv.Itoa(3+i), ref)
		w.changed(before, after)
		if !w.queued()[namespace+"/a"] {
			t.Errorf("another EIp names %q, and nobody looks", ref)
		}
		before = after
	}
	w.changed(mine, nil)
	w.queued()
	w.changed(nil, &kubeovn.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: "left", ResourceVersion: "9", Labels: map[string]string{eip.LabelNamespace: namespace, eip.LabelName: "a", eip.LabelUID: "uid-a"}}})
	if !w.queued()[namespace+"/a"] {
		t.Error("an OvnEip of an EIp that is gone comes, and nobody looks")
	}
}

// An EIp whose address kube-ovn gave twice is looked at when the other OvnEip goes.
func TestRivalGoes(t *testing.T) {
	w := newWorld(t)
	e := anEIp("a", "1")
	w.changed(nil, e)
	with := func(name, version string) *kubeovn.OvnEip {
		return &kubeovn.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}, Status: kubeovn.OvnEipStatus{Ready: true, V6IP: "2001:db8::7"}}
	}
	rival := with("rival", "2")
	w.changed(nil, rival)
	w.changed(nil, with(eip.OvnEipName(e), "3"))
	w.queued()
	w.changed(rival, nil)
	if !w.queued()[namespace+"/a"] {
		t.Error("nobody looks")
	}
}

// Rows of a Service concern EIps of other namespaces that have the same address.
func TestTouchReachesSharers(t *testing.T) {
	w := newWorld(t)
	for i, name := range []string{namespace, "other"} {
		e := anEIp(kubedc.DefaultGateway, strconv.Itoa(i+1))
		e.Namespace, e.Spec.ChildRef = name, namespace+"-ext"
		w.changed(nil, e)
	}
	s := service("web", "3", map[string]string{kubedc.AnnotationEIp: kubedc.DefaultGateway})
	w.changed(nil, s)
	w.queued()
	w.Touch(s2key(s))
	if got := w.queued(); !got[namespace+"/default-gw"] || !got["other/default-gw"] {
		t.Errorf("looked at are %v", got)
	}
}

// However many Services there are, a change concerns few of them, and needs only these.
func TestChangesConcernFew(t *testing.T) {
	cost := func(n int) float64 {
		w := newWorld(t)
		for i := range n {
			s := service("s"+strconv.Itoa(i), "1", nil)
			w.changed(nil, s)
			b := w.look(s)
			made := b.Plan.Steps[0].Body.(eip.Write).Object.(*api.EIp).DeepCopy()
			made.UID, made.ResourceVersion, made.CreationTimestamp = types.UID("uid-"+made.Name), "1", metav1.Now()
			w.changed(nil, made)
			w.changed(nil, &kubeovn.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: eip.OvnEipName(made), ResourceVersion: "1", Labels: map[string]string{eip.LabelUID: string(made.UID)}},
				Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext"}, Status: kubeovn.OvnEipStatus{Ready: true, V4IP: fmt.Sprintf("10.1.%d.%d", i/256, i%256)}})
		}
		w.wakes()
		s := service("s1", "1", nil)
		before, after := w.book.GetOvnEip(eip.OvnEipName(w.book.GetEIp(w.book.EIps(namespace)[0]))), &kubeovn.OvnEip{}
		before.DeepCopyInto(after)
		allocations := testing.AllocsPerRun(50, func() {
			w.look(s)
			w.changed(before, after)
			w.changed(s, s)
		})
		return allocations
	}
	few, many := cost(10), cost(2000)
	t.Logf("%.0f allocations among 10, %.0f among 2,000", few, many)
	if many > 1.5*few {
		t.Errorf("a look and two changes cost %.0f allocations among 10 Services, and %.0f among 2,000", few, many)
	}
}

// All of it happens at the same time.
func TestConcurrentUse(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for v := range 50 {
				name := "s" + strconv.Itoa(v%7)
				s := service(name, strconv.Itoa(v+1), nil)
				w.changed(nil, s)
				b := w.look(s)
				for _, step := range b.Plan.Steps {
					made := step.Body.(eip.Write).Object.(*api.EIp).DeepCopy()
					made.UID, made.ResourceVersion = types.UID(fmt.Sprint(i, v)), strconv.Itoa(v+1)
					if err := w.writing(made, func() (client.Object, error) { return made, nil }); err != nil {
						t.Error(err)
					}
				}
				w.Touch(s2key(s))
				if _, _, _, err := w.Locate(namespace); err != nil {
					t.Error(err)
				}
				if v%5 == 0 {
					w.changed(s, nil)
				}
			}
		})
	}
	all.Wait()
}

func s2key(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}
