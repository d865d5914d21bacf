package eip

import (
	"cmp"
	"fmt"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
)

// shared is an OvnEip that an administrator shares with the namespace.
func (w *world) shared(name, address string) *kubeovn.OvnEip {
	o := &kubeovn.OvnEip{ObjectMeta: w.meta(name), Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext-cloud", Type: "lrp", V4IP: address}}
	o.Labels = map[string]string{LabelNamespace: namespace}
	w.ovn[name] = o
	return o
}

// drop removes childRef from an EIp, which the API server does not refuse: rules of a field
// do not apply when the field is removed.
func (w *world) drop(name string) {
	e := w.eips[name].DeepCopy()
	e.Spec.ChildRef = ""
	w.store(w.eips, name, e)
}

// What a tenant was only allowed to refer to never becomes the EIp's own: it gets no label
// of the EIp, stays usable for others, and is not deleted with the EIp.
func TestChildRefRemoved(t *testing.T) {
	w := newWorld(t)
	children := []string{"shared-1", "shalb-dev-ext-cloud"}
	w.shared("shared-1", "100.64.0.40")
	w.eip("y", api.EIpSpec{ChildRef: "shared-1"})
	w.service("other", kubedc.Wish{EIp: "y"}, 81)
	for _, child := range children {
		w.eip("x-"+child, api.EIpSpec{ChildRef: child})
	}
	w.settle()
	for _, child := range children {
		e := "x-" + child
		if w.eips[e].Status.OvnEIpRef != child {
			t.Fatalf("EIp %s: %+v", e, w.eips[e].Status)
		}
		w.drop(e)
		s := w.state()
		s.Vpcs = nil // they cannot be read
		plan, _ := Look(s).EIp(e)
		for _, step := range plan.Steps {
			if step.Kind == "OvnEip" && step.Name == child {
				t.Errorf("without Vpcs: %s", step)
			}
		}
		w.settle()
		if uid := w.ovn[child].Labels[LabelUID]; uid != "" {
			t.Errorf("%s belongs to the EIp with UID %s now", child, uid)
		}
		remove1(w, w.eips, e)
		w.settle()
		if o := w.ovn[child]; o == nil || o.DeletionTimestamp != nil {
			t.Errorf("%s is deleted", child)
		}
	}
	if w.address("other") != "[100.64.0.40]" {
		t.Errorf("another EIp has lost the shared address: %s %s", w.address("other"), w.reason("other"))
	}
}

// With ovn.eips: use, the status of an EIp says what somebody else has given it. An EIp that
// has our finalizer from before does not take an OvnEip with it that is not labelled as its
// own.
func TestLeaveKeepsOvnEipsOfOthers(t *testing.T) {
	w := newWorld(t)
	w.eip("doomed", api.EIpSpec{})
	w.settle()
	theirs := w.shared("theirs", "100.64.0.41")
	for name, labels := range map[string]map[string]string{"unlabelled": nil, "of another EIp": {LabelNamespace: namespace, LabelUID: "another"}} {
		o := theirs.DeepCopy()
		o.Labels = labels
		w.store(w.ovn, "theirs", o)
		e := w.eips["doomed"].DeepCopy()
		e.Status.OvnEIpRef = "theirs"
		at := e.CreationTimestamp
		e.DeletionTimestamp = &at
		s := w.state()
		s.Serves, s.EIps = false, []*api.EIp{e}
		plan, _ := Look(s).EIp("doomed")
		if len(plan.Steps) != 1 || plan.Steps[0].Kind != "EIp" {
			t.Errorf("%s: %s", name, plan)
		}
	}
}

// The status of an EIp alone does not give it the address of another project.
func TestStatusIsNoProof(t *testing.T) {
	w := newWorld(t)
	w.now = w.now.Add(time.Second)
	thief := w.eip("thief", api.EIpSpec{})
	thief.Finalizers = []string{Finalizer}
	elder := thief.DeepCopy()
	elder.Namespace, elder.UID = "prod", "elder"
	elder.CreationTimestamp = metav1.NewTime(w.now.Add(-time.Second))
	younger := thief.DeepCopy()
	younger.Namespace, younger.UID, younger.CreationTimestamp = "prod", "younger", metav1.NewTime(w.now.Add(time.Second))
	vpcs := map[string]*kubeovn.Vpc{namespace: w.vpc, "prod": {}}
	for name, test := range map[string]struct {
		ovnEip string
		labels map[string]string
		other  *api.EIp
		status string // address
		gets   bool
	}{
		"another project's gateway":        {ovnEip: "prod-ext-cloud"},
		"the own gateway":                  {ovnEip: "shalb-dev-ext-cloud", gets: true},
		"labelled for another EIp":         {ovnEip: "o", labels: map[string]string{LabelNamespace: namespace, LabelUID: "another"}},
		"labelled for another project":     {ovnEip: "o", labels: map[string]string{LabelNamespace: "prod"}},
		"shared with the project":          {ovnEip: "o", labels: map[string]string{LabelNamespace: namespace}, gets: true},
		"its own":                          {ovnEip: "o", labels: map[string]string{LabelNamespace: namespace, LabelName: "thief", LabelUID: string(thief.UID)}, gets: true},
		"an older EIp elsewhere has it":    {ovnEip: "o", other: elder},
		"a younger EIp elsewhere names it": {ovnEip: "o", other: younger, gets: true},
		"nobody else names it":             {ovnEip: "o", gets: true},
		"an address that it does not have": {ovnEip: "o", status: "100.64.0.99"},
		"none":                             {status: "100.64.0.99"},
	} {
		for _, serves := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, serves), func(t *testing.T) {
				o := &kubeovn.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: test.ovnEip, Labels: test.labels}, Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext-cloud"}, Status: kubeovn.OvnEipStatus{Ready: true, V4IP: "100.64.0.40"}}
				e := thief.DeepCopy()
				e.Status = api.EIpStatus{OvnEIpRef: test.ovnEip, IPAddress: cmp.Or(test.status, "100.64.0.40"), Ready: true}
				b := NewBook(serves)
				for name, v := range vpcs {
					b.Vpc(name, v)
				}
				key := types.NamespacedName{Namespace: namespace, Name: "thief"}
				b.EIp(key, e)
				b.OvnEip(o.Name, o)
				if test.other != nil {
					other := test.other.DeepCopy()
					other.Status = e.Status
					b.EIp(types.NamespacedName{Namespace: "prod", Name: "theirs"}, other)
				}
				v := b.LookAtEIp(key, func(netip.Addr, []lb.Port) ([]Row, error) { return nil, nil }, w.now)
				gets := test.gets
				if serves && (test.labels[LabelNamespace] == namespace && test.labels[LabelUID] == "" || o.Name == "shalb-dev-ext-cloud") {
					gets = false // only by childRef
				}
				if serves && test.status != "" && test.ovnEip != "" {
					gets = true // what the OvnEip has, whatever the status says
				}
				if got := v.eips["thief"].addresses; len(got) > 0 != gets || gets && got[0].String() != "100.64.0.40" {
					t.Errorf("it has %v", got)
				}
			})
		}
	}
}
