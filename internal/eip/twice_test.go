package eip

import (
	"fmt"
	"strings"
	"testing"

	api "fairlead.io/api/kubedc"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
)

// An IPv6 address that kube-ovn gives to two OvnEips is the older one's, and it is served
// once. When that one goes, the younger has it.
func TestAddressGivenTwice(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"z-old", "a-young"} {
		w.eip(name, api.EIpSpec{})
		w.service("of-"+name, kubedc.Wish{EIp: name}, 80).Service.Families = []lb.Family{lb.IPv4, lb.IPv6}
		w.settle()
	}
	for _, name := range []string{"z-old", "a-young"} {
		o := w.ovn[OvnEipName(w.eips[name])].DeepCopy()
		o.Status.V6IP = "2001:db8::7"
		w.store(w.ovn, o.Name, o)
	}
	w.settle() // fails if two Services have a port of one address
	has := func(name, want string) {
		t.Helper()
		if got := w.address("of-" + name); got != want {
			t.Errorf("%s has %s, want %s: %s", name, got, want, w.reason("of-"+name))
		}
	}
	has("z-old", "[100.64.0.3 2001:db8::7]")
	has("a-young", "[100.64.0.4]")

	// Without an IPv4 address the younger has none, and says why.
	young := w.ovn[OvnEipName(w.eips["a-young"])].DeepCopy()
	young.Status.V4IP = ""
	w.store(w.ovn, young.Name, young)
	w.now = w.now.Add(Patience)
	w.settle()
	has("a-young", "[]")
	if want := fmt.Sprintf("kube-ovn has given 2001:db8::7 to OvnEip %s, and before that to OvnEip %s", young.Name, OvnEipName(w.eips["z-old"])); !strings.Contains(w.reason("of-a-young"), want) {
		t.Errorf("says %s, want %s", w.reason("of-a-young"), want)
	}

	// Rows of the older one do not keep the younger EIp.
	delete(w.services, "of-a-young")
	e := w.eips["a-young"].DeepCopy()
	w.settle()
	remove1(w, w.eips, "a-young")
	s := w.state()
	if steps, _ := Look(s).EIp("a-young"); len(steps.Steps) == 0 || steps.Steps[0].Kind != "OvnEip" {
		t.Errorf("it is kept: %s", steps)
	}
	w.eips["a-young"] = e
	w.store(w.eips, "a-young", e)
	w.service("of-a-young", kubedc.Wish{EIp: "a-young"}, 80).Service.Families = []lb.Family{lb.IPv6}
	w.settle()
	has("a-young", "[]")
	delete(w.services, "of-z-old")
	remove1(w, w.eips, "z-old")
	w.settle()
	has("a-young", "[2001:db8::7]")
}
