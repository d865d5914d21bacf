package eip

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/internal/compat/kubedc"
)

// vanish deletes an EIp whose finalizers its tenant has removed.
func (w *world) vanish(name string) { delete(w.eips, name) }

// However an EIp goes or is changed, no OvnEip stays that nobody has: else one tenant could
// take all addresses of an external subnet. It is kept while a Service has its address.
func TestStrays(t *testing.T) {
	long := strings.Repeat("long-", 13) + "name"
	for name, test := range map[string]struct {
		eip  string
		act  func(*world, string)
		left int
	}{
		"deleted without the finalizer":                   {"web", (*world).vanish, 0},
		"deleted without the finalizer, with a long name": {long, (*world).vanish, 0},
		"made again under its name": {"web", func(w *world, name string) {
			w.vanish(name)
			w.eip(name, api.EIpSpec{})
		}, 1},
		"refers to the gateway": {"web", func(w *world, name string) {
			e := w.eips[name].DeepCopy()
			e.Spec.ChildRef = "shalb-dev-ext-cloud"
			w.store(w.eips, name, e)
		}, 0},
		"its status is lost": {"web", func(w *world, name string) {
			e := w.eips[name].DeepCopy()
			e.Status = api.EIpStatus{}
			w.store(w.eips, name, e)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.eip(test.eip, api.EIpSpec{})
			w.eip(long+"-too", api.EIpSpec{}) // nobody touches it
			w.service("user", kubedc.Wish{EIp: test.eip}, 80)
			w.settle()
			test.act(w, test.eip)
			w.settle()
			w.now = w.now.Add(Patience)
			w.settle()
			if got := len(w.ovn) - 2; got != test.left {
				t.Errorf("%d OvnEips of the EIp are left, want %d: %v", got, test.left, w.writes)
			}
			if w.ovn[OvnEipName(w.eips[long+"-too"])] == nil {
				t.Error("the OvnEip of another EIp is deleted")
			}
		})
	}
}

// A stray is not deleted while it may be somebody's.
func TestStraysAreKept(t *testing.T) {
	w := newWorld(t)
	w.eip("web", api.EIpSpec{})
	w.service("user", kubedc.Wish{EIp: "web"}, 80)
	w.settle()
	e := w.eips["web"]
	o := OvnEipName(e)
	w.vanish("web")
	steps := func(change func(*State)) int {
		s := w.state()
		s.Now, s.Rows = w.now.Add(Patience), nil
		if change != nil {
			change(&s)
		}
		p, wait := Look(s).EIp("web")
		if len(p.Steps) == 0 && wait == 0 {
			t.Error("nobody looks again")
		}
		return len(p.Steps)
	}
	for name, change := range map[string]func(*State){
		"a row has its address":       func(s *State) { s.Rows = w.state().Rows },
		"the database cannot be read": func(s *State) { s.RowsUnknown = true },
		"its EIp may not be known":    func(s *State) { s.Now = s.Now.Add(-time.Second - Patience) },
		"a rule has a port of it":     func(s *State) { s.Rules = map[string][]Rule{o: {{Name: "r"}}} },
	} {
		if steps(change) != 0 {
			t.Errorf("%s, and it is deleted", name)
		}
	}
	if steps(nil) != 1 {
		t.Error("it is not deleted")
	}
	// What an administrator has labelled, and the gateway of a router.
	for name, labels := range map[string]map[string]string{
		"shared":  {LabelNamespace: namespace, LabelName: "web"},
		"foreign": {LabelNamespace: "other", LabelName: "web", LabelUID: "u"},
	} {
		w.shared(name, "").Labels = labels
	}
	gateway := w.ovn["shalb-dev-ext-cloud"].DeepCopy()
	gateway.Labels = map[string]string{LabelNamespace: namespace, LabelName: "web", LabelUID: "u"}
	gateway.CreationTimestamp = metav1.Time{}
	w.store(w.ovn, gateway.Name, gateway)
	if n := steps(nil); n != 1 {
		t.Errorf("%d are deleted", n)
	}
	b := NewBook(true)
	b.OvnEip(o, w.ovn[o])
	if got := b.EIpsFor(o); len(got) != 1 || got[0] != (types.NamespacedName{Namespace: namespace, Name: "web"}) {
		t.Errorf("looks at %v", got)
	}
}
