package eip

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	api "fairlead.io/api/kubedc"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
)

// What a Service is told, and what it has meanwhile. Each heals when its cause goes.
func TestReasons(t *testing.T) {
	for name, test := range map[string]struct {
		wish  kubedc.Wish
		setup func(*world)
		want  string
		heal  func(*world)
		then  string
	}{
		"an EIp that is not there": {wish: kubedc.Wish{EIp: "none"},
			want: `EIpMissing: EIp "none" does not exist in namespace shalb-dev. Create it, or remove the annotation that requests it.`,
			heal: func(w *world) { w.eip("none", api.EIpSpec{}) }, then: "[100.64.0.3]"},
		"an EIp that a FIp has": {wish: kubedc.Wish{EIp: "web"}, setup: func(w *world) {
			w.eip("web", api.EIpSpec{})
			w.fips["vm"] = &api.FIp{ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Status: api.FIpStatus{EIp: "web"}}
		}, want: `EIpTaken: EIp "web" is used by FIp "vm", which does not share it. Request another EIp, or delete the FIp.`,
			heal: func(w *world) { clear(w.fips) }, then: "[100.64.0.3]"},
		"a port that an OvnDnatRule has": {wish: kubedc.Wish{EIp: "web"}, setup: func(w *world) { w.rule(w.eip("web", api.EIpSpec{}), "80") },
			want: `EIpTaken: EIp "web" is used by OvnDnatRule "theirs" for TCP 80, which does not share it. Request another EIp, or delete the OvnDnatRule.`,
			heal: func(w *world) { clear(w.rules) }, then: "[100.64.0.3]"},
		"another port that an OvnDnatRule has": {wish: kubedc.Wish{EIp: "web"}, setup: func(w *world) { w.rule(w.eip("web", api.EIpSpec{}), "81") }, then: "[100.64.0.3]"},
		"an OvnDnatRule that has no port":      {wish: kubedc.Wish{EIp: "web"}, setup: func(w *world) { w.rule(w.eip("web", api.EIpSpec{}), "moon") }, then: "[100.64.0.3]"},
		"an address that is not the EIp's": {wish: kubedc.Wish{EIp: "web", Addresses: addr("100.64.0.9")}, setup: func(w *world) { w.eip("web", api.EIpSpec{}) },
			want: `InvalidRequest: The Service requests address 100.64.0.9 and EIp "web", which has 100.64.0.3; remove one of the two requests. Correct it.`,
			heal: func(w *world) { w.service("web", kubedc.Wish{EIp: "web"}, 80) }, then: "[100.64.0.3]"},
		"a fixed address":                                  {wish: kubedc.Wish{Addresses: addr("100.64.0.9")}, then: "[100.64.0.9]"},
		"a fixed address of the other subnet":              {wish: kubedc.Wish{Addresses: addr("168.119.17.55")}, then: "[168.119.17.55]"},
		"a fixed address that an EIp of the namespace has": {wish: kubedc.Wish{Addresses: addr("100.64.0.3")}, setup: func(w *world) { w.eip("web", api.EIpSpec{}) }, then: "[100.64.0.3]"},
		"a fixed address of the wrong network": {wish: kubedc.Wish{Addresses: addr("168.119.17.55"), NetworkType: kubedc.Cloud},
			want: "AddressPending: EIp \"slb-web-NAME\" has no address yet: no external subnet of type cloud contains 168.119.17.55.",
			heal: func(w *world) { w.service("web", kubedc.Wish{Addresses: addr("168.119.17.55")}, 80) }, then: "[168.119.17.55]"},
		"another network": {wish: kubedc.Wish{NetworkType: kubedc.Public}, then: "[168.119.17.51]"},
		"a network that is not there": {wish: kubedc.Wish{NetworkType: kubedc.Public}, setup: func(w *world) { w.subnets = w.subnets[:1] },
			want: "AddressPending: EIp \"slb-web-NAME\" has no address yet: there is no external subnet of type public.",
			heal: func(w *world) { w.subnets = newWorld(w.t).subnets }, then: "[168.119.17.51]"},
		"an IPv6 address": {setup: func(w *world) { w.services["web"].Service.Families = []lb.Family{lb.IPv6} },
			want: "FamilyUnavailable: No available IPs: the Service needs an IPv6 address, but EIp \"slb-web-NAME\" has none. Add some, or change the Service's ipFamilies or ipFamilyPolicy."},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.service("web", test.wish, 80)
			if test.setup != nil {
				test.setup(w)
			}
			w.settle()
			w.now = w.now.Add(Patience)
			w.settle()
			auto := AutoName(c.Service.Key, c.Service.UID, c.Wish)
			if got := strings.ReplaceAll(w.reason("web"), auto, "slb-web-NAME"); got != test.want {
				t.Errorf("says %s\nwant %s", got, test.want)
			}
			if test.want != "" && w.address("web") != "[]" {
				t.Errorf("has %s", w.address("web"))
			}
			if test.heal != nil {
				test.heal(w)
				w.settle()
			}
			if test.then != "" && (w.address("web") != test.then || w.reason("web") != "") {
				t.Errorf("then it has %s: %s", w.address("web"), w.reason("web"))
			}
		})
	}
}

// A Service keeps what it has while it asks for something that it cannot have.
func TestKeeps(t *testing.T) {
	w := newWorld(t)
	c := w.service("web", kubedc.Wish{}, 80)
	w.settle()
	for name, wish := range map[string]kubedc.Wish{"a missing EIp": {EIp: "none"}, "another address": {Addresses: addr("10.9.9.9")}} {
		w.service("web", wish, 80)
		w.settle()
		w.now = w.now.Add(Patience)
		w.settle()
		if w.address("web") != "[100.64.0.3]" || w.reason("web") == "" {
			t.Errorf("%s: has %s: %s", name, w.address("web"), w.reason("web"))
		}
	}
	c.Invalid = true
	w.settle()
	if w.address("web") != "[100.64.0.3]" {
		t.Errorf("has %s", w.address("web"))
	}
	// The request for any address does not move it either, nor does one for another network.
	c.Invalid = false
	w.service("web", kubedc.Wish{NetworkType: kubedc.Public}, 80)
	w.settle()
	b := Look(w.state()).Service(c.Service.UID)
	if w.address("web") != "[100.64.0.3]" || b.Reason != nil || len(b.Tell) != 1 || b.Tell[0].Code != NetworkTypeFixed || len(w.eips) != 2 {
		t.Errorf("has %s, %+v, EIps %v", w.address("web"), b, w.eips)
	}
	// A move to another EIp: the old one stays until the new one serves.
	w.eip("other", api.EIpSpec{})
	w.service("web", kubedc.Wish{EIp: "other"}, 80)
	w.turn(nil)
	if w.address("web") != "[100.64.0.3]" {
		t.Errorf("has %s before the other is ready", w.address("web"))
	}
	w.settle()
	if w.address("web") != "[100.64.0.4]" || len(w.eips) != 2 {
		t.Errorf("has %s, EIps %v", w.address("web"), w.eips)
	}
}

func TestNotAProject(t *testing.T) {
	w := newWorld(t)
	c := w.service("web", kubedc.Wish{}, 80)
	s := w.state()
	s.Place = nil
	b := Look(s).Service(c.Service.UID)
	if b.Reason == nil || b.Reason.Code != NotAProject || !b.Reason.EventOnly() || !b.Plan.Empty() {
		t.Errorf("%+v", b)
	}
	s.Problem = "Annotation x is empty"
	if b := Look(s).Service(c.Service.UID); !strings.Contains(b.Reason.Text, "is not that of a project: Annotation x is empty.") {
		t.Errorf("%+v", b.Reason)
	}
}

// While the database cannot be read, no address is released.
func TestRowsUnknown(t *testing.T) {
	w := newWorld(t)
	w.service("web", kubedc.Wish{}, 80)
	w.settle()
	clear(w.services)
	s := w.state()
	s.Rows, s.RowsUnknown = nil, true
	for name := range w.eips {
		if p, _ := Look(s).EIp(name); slices.ContainsFunc(p.Steps, func(s lb.Step) bool { return s.Verb == lb.VerbDelete }) {
			t.Errorf("%s", p)
		}
	}
}

// What others have written into the list of owners stays, but for Services that are gone
// or publish something else.
func TestOwnersOfOthers(t *testing.T) {
	w := newWorld(t)
	w.eip("web", api.EIpSpec{})
	w.settle()
	e := w.eips["web"].DeepCopy()
	e.Status.Owners = []api.Owner{{Type: "FIp", OwnerRef: "vm"}, {Type: "service", OwnerRef: "gone"}, {Type: "Service", OwnerRef: "shalb-dev/theirs"}, {Type: "Service", OwnerRef: "uid-of-theirs"}, {Type: "Service", OwnerRef: "former"}, {Type: "x", OwnerRef: "y"}}
	w.store(w.eips, "web", e)
	w.service("ours", kubedc.Wish{EIp: "web"}, 80)
	s := w.state()
	s.Names["theirs"], s.Names["former"] = "uid-of-theirs", "uid-of-former"
	s.Published = map[types.UID][]netip.Addr{"uid-of-theirs": Look(s).eips["web"].addresses}
	v := Look(s)
	if got, want := fmt.Sprint(v.owners(v.eips["web"])), "[{FIp vm} {Service shalb-dev/ours} {Service shalb-dev/theirs} {Service uid-of-theirs} {x y}]"; got != want {
		t.Errorf("owners %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(v.blockers(v.eips["web"])), "[Service shalb-dev/ours Service shalb-dev/theirs Service uid-of-theirs x y]"; got != want {
		t.Errorf("kept by %s, want %s", got, want)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 60)
	seen := map[string]bool{}
	for _, name := range []string{"web", long, long + "bb", "a.b"} {
		for _, uid := range []string{name + "1", name + "2"} {
			auto := AutoName(types.NamespacedName{Namespace: "ns", Name: name}, types.UID(uid), kubedc.Wish{})
			ovn := OvnEipName(&api.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: long, Name: auto, UID: types.UID(uid)}})
			for _, n := range []string{auto, ovn} {
				if len(validation.IsDNS1123Subdomain(n)) > 0 || len(validation.IsValidLabelValue(n)) > 0 || seen[n] {
					t.Errorf("%s: invalid, or twice", n)
				}
				seen[n] = true
			}
		}
	}
	for eip, want := range map[string]bool{"slb-web-bc6y7": true, "slb-web-b-6y7": false, "slb-web-bc6y": false, "slb-web-x-bc6y7": false, "web-bc6y7": false} {
		if looksAutomatic(eip, "web") != want {
			t.Errorf("%s: %v", eip, !want)
		}
	}
}

// Whatever is written on objects, a look ends, and asks kube-ovn for nothing but addresses.
func FuzzLook(f *testing.F) {
	f.Add("100.64.0.3", "100.64.0.3,2001:db8::1", "shalb-dev-ext-cloud", "Service", "web", "10")
	f.Add("x", ",,", "", "", "", "1e30")
	f.Fuzz(func(t *testing.T, status, annotation, child, kind, ref, available string) {
		w := newWorld(t)
		e := w.eip("web", api.EIpSpec{ChildRef: child})
		e.Annotations = map[string]string{AnnotationAddress: annotation}
		e.Status = api.EIpStatus{IPAddress: status, OvnEIpRef: ref, Owners: []api.Owner{{Type: kind, OwnerRef: ref}}}
		w.subnets[0].Status.V4Available.UnmarshalJSON([]byte(available))
		w.subnets[0].Spec.CIDRBlock = available
		w.service("web", kubedc.Wish{EIp: "web"}, 80)
		for range 3 {
			v := Look(w.state())
			b := v.Service(w.services["web"].Service.UID)
			for _, a := range b.Addresses {
				if !a.IsValid() {
					t.Errorf("%+v", b)
				}
			}
			p, _ := v.EIp("web")
			for _, step := range p.Steps {
				body := step.Body.(Write)
				if raw := body.Object; step.Verb == lb.VerbDelete && raw.GetName() == "shalb-dev-ext-cloud" {
					t.Fatalf("%s", step)
				}
				_ = w.do(step)
			}
			for _, o := range w.ovn {
				for field := range strings.SplitSeq(o.Spec.V4IP, ",") {
					if _, err := netip.ParseAddr(field); err != nil && field != "" {
						t.Errorf("asks for %q", o.Spec.V4IP)
					}
				}
			}
		}
	})
}
