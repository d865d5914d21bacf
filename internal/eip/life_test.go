package eip

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	api "fairlead.io/api/kubedc"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
)

func addr(s string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(s)} }

// A Service gets an EIp and an OvnEip of its own, with four writes, and both go with it.
func TestAutomatic(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.writes = nil
	c := w.service("etcd-lb", kubedc.Wish{}, 2379)
	w.settle()
	name := AutoName(c.Service.Key, c.Service.UID, c.Wish)
	e := w.eips[name]
	if e == nil || !strings.HasPrefix(name, "slb-etcd-lb-") || w.address("etcd-lb") != "[100.64.0.3]" {
		t.Fatalf("EIps %v, address %s", slices.Sorted(maps.Keys(w.eips)), w.address("etcd-lb"))
	}
	s := e.Status
	if s.IPAddress != "100.64.0.3" || !s.Ready || s.OwnershipType != api.Exclusive || !s.DeleteReleased || len(s.Owners) != 1 || s.Owners[0] != (api.Owner{Type: "Service", OwnerRef: "shalb-dev/etcd-lb"}) {
		t.Errorf("status %+v", s)
	}
	o := w.ovn[s.OvnEIpRef]
	if o == nil || o.Name != OvnEipName(e) || o.Spec.ExternalSubnet != "ext-cloud" || o.Status.NAT != "" || o.Labels[LabelUID] != string(e.UID) {
		t.Errorf("OvnEip %+v", o)
	}
	if len(w.writes) != 3 {
		t.Errorf("%d writes: %v", len(w.writes), w.writes)
	}
	delete(w.services, "etcd-lb")
	w.settle()
	if len(w.eips) != 1 || len(w.ovn) != 1 {
		t.Errorf("left: %v, %v", w.eips, w.ovn)
	}
}

// EIps that no Service names are served as well, and outlive the Services that use them.
func TestUserMade(t *testing.T) {
	w := newWorld(t)
	w.eip("web", api.EIpSpec{ExternalNetworkType: kubedc.Public})
	w.settle()
	e := w.eips["web"]
	if e.Status.IPAddress != "168.119.17.51" || e.Status.OwnershipType != api.Released || e.Status.DeleteReleased || !slices.Contains(w.vpc.Spec.ExtraExternalSubnets, "ext-public") {
		t.Fatalf("status %+v, Vpc %+v", e.Status, w.vpc.Spec)
	}
	w.service("a", kubedc.Wish{EIp: "web"}, 80)
	w.service("b", kubedc.Wish{EIp: "web"}, 443)
	w.settle()
	if e := w.eips["web"]; e.Status.OwnershipType != api.Shared || len(e.Status.Owners) != 2 || w.address("b") != "[168.119.17.51]" {
		t.Errorf("status %+v", e.Status)
	}
	// Its deletion waits for both.
	remove1(w, w.eips, "web")
	w.settle()
	if e := w.eips["web"]; e == nil || !strings.Contains(e.Status.Conditions[1].Message, "Service shalb-dev/a and Service shalb-dev/b") || e.Status.Conditions[1].Type != ConditionInUse {
		t.Fatalf("EIp %+v", e)
	}
	delete(w.services, "a")
	delete(w.services, "b")
	w.settle()
	if w.eips["web"] != nil || len(w.ovn) != 2 {
		t.Errorf("left: %v, %v", w.eips, w.ovn)
	}
}

// The gateway's EIp is served, and neither it nor its OvnEip is ever deleted.
func TestDefaultGateway(t *testing.T) {
	w := newWorld(t)
	w.service("a", kubedc.Wish{EIp: kubedc.DefaultGateway}, 80)
	w.service("b", kubedc.Wish{EIp: kubedc.DefaultGateway}, 80)
	w.settle()
	if w.address("a") != "[100.64.0.2]" || w.address("b") != "[]" || !strings.Contains(w.reason("b"), `PortConflict: Port TCP 80 at EIp "default-gw" belongs to Service shalb-dev/a`) {
		t.Errorf("a has %s, b has %s: %s", w.address("a"), w.address("b"), w.reason("b"))
	}
	w.service("a", kubedc.Wish{EIp: kubedc.DefaultGateway}, 81)
	w.settle()
	if w.address("b") != "[100.64.0.2]" || w.reason("b") != "" {
		t.Errorf("b has %s: %s", w.address("b"), w.reason("b"))
	}
	// The older one wants its port back.
	w.service("a", kubedc.Wish{EIp: kubedc.DefaultGateway}, 80)
	w.settle()
	if w.address("a") != "[100.64.0.2]" || w.address("b") != "[]" {
		t.Errorf("a has %s, b has %s", w.address("a"), w.address("b"))
	}
	clear(w.services)
	remove1(w, w.eips, kubedc.DefaultGateway)
	w.settle()
	if w.ovn["shalb-dev-ext-cloud"] == nil || w.ovn["shalb-dev-ext-cloud"].DeletionTimestamp != nil || len(w.eips) != 0 {
		t.Errorf("left: %v, %v", w.eips, w.ovn)
	}
}

// A tenant cannot have the address of another project by naming its OvnEip.
func TestForeignChild(t *testing.T) {
	w := newWorld(t)
	w.ovn["prod-ext-cloud"] = w.ovn["shalb-dev-ext-cloud"].DeepCopy()
	w.ovn["prod-ext-cloud"].Name, w.ovn["prod-ext-cloud"].Status.V4IP = "prod-ext-cloud", "100.64.0.9"
	w.eip("mine", api.EIpSpec{ChildRef: "prod-ext-cloud"})
	w.service("thief", kubedc.Wish{EIp: "mine"}, 80)
	w.settle()
	if e := w.eips["mine"]; w.address("thief") != "[]" || e.Status.Ready || e.Status.Conditions[0].Reason != string(EIpRefused) {
		t.Errorf("thief has %s, EIp %+v", w.address("thief"), e.Status)
	}
	// An administrator shares it.
	shared := w.ovn["prod-ext-cloud"].DeepCopy()
	shared.Labels = map[string]string{LabelNamespace: namespace}
	w.store(w.ovn, shared.Name, shared)
	w.settle()
	if w.address("thief") != "[100.64.0.9]" {
		t.Errorf("it has %s: %s", w.address("thief"), w.reason("thief"))
	}
	remove1(w, w.eips, "mine")
	clear(w.services)
	w.settle()
	if w.ovn["prod-ext-cloud"] == nil || w.ovn["prod-ext-cloud"].DeletionTimestamp != nil {
		t.Error("what was only referred to is deleted")
	}
}

// An OvnEip that somebody deletes is made again with the same address; if that is gone
// after a while, with any.
func TestOvnEipDeleted(t *testing.T) {
	for name, gone := range map[string]bool{"the address is still free": false, "somebody else has it": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.service("web", kubedc.Wish{}, 80)
			w.settle()
			had := w.address("web")
			for _, e := range w.eips {
				if e.Spec.ChildRef == "" {
					w.stolen[e.Status.OvnEIpRef] = true
					remove1(w, w.ovn, e.Status.OvnEIpRef)
				}
			}
			w.refuses["100.64.0.3"] = gone
			w.turn(nil)
			if len(w.rows) != 0 {
				t.Errorf("rows %v while the address may be somebody else's", w.rows)
			}
			w.settle()
			if !gone {
				if w.address("web") != had {
					t.Errorf("had %s, has %s", had, w.address("web"))
				}
				return
			}
			if w.address("web") != "[]" {
				t.Errorf("has %s", w.address("web"))
			}
			w.now = w.now.Add(Patience)
			if r := w.reason("web"); !strings.Contains(r, "which requests 100.64.0.3; subnet ext-cloud has 200 free IPv4 addresses") {
				t.Errorf("says %s", r)
			}
			w.settle()
			if w.address("web") != "[100.64.0.4]" || len(w.ovn) != 2 {
				t.Errorf("has %s of %v", w.address("web"), w.ovn)
			}
		})
	}
}

// A full subnet is told after a while, and nothing is made and deleted meanwhile.
func TestFullSubnet(t *testing.T) {
	w := newWorld(t)
	w.full = true
	w.service("web", kubedc.Wish{}, 80)
	w.settle()
	if r := w.reason("web"); r != "" {
		t.Errorf("at once: %s", r)
	}
	w.now = w.now.Add(Patience)
	w.settle()
	if r := w.reason("web"); !strings.HasPrefix(r, "AddressPending: ") {
		t.Errorf("says %s", r)
	}
	w.writes = nil
	for range 5 {
		w.now = w.now.Add(time.Hour)
		w.settle()
	}
	if len(w.writes) > 0 {
		t.Errorf("writes %v", w.writes)
	}
	w.full = false
	w.settle()
	if w.address("web") != "[100.64.0.3]" || w.reason("web") != "" {
		t.Errorf("has %s: %s", w.address("web"), w.reason("web"))
	}
}

// What kube-dc's manager has made for a Service is taken over: no address changes.
func TestTakeOver(t *testing.T) {
	w := newWorld(t)
	w.settle()
	e := w.eip("slb-web-bc6y7", api.EIpSpec{})
	e.Status = api.EIpStatus{IPAddress: "100.64.0.77", OvnEIpRef: "eip-slb-web-bc6y7", OwnershipType: api.Exclusive, Ready: true, DeleteReleased: true, Owners: []api.Owner{{Type: "Service", OwnerRef: "web"}}}
	o := w.ovn["shalb-dev-ext-cloud"].DeepCopy()
	o.ObjectMeta, o.Status.V4IP = w.meta("eip-slb-web-bc6y7"), "100.64.0.77"
	o.Finalizers = []string{finalizerOVN}
	w.ovn[o.Name] = o
	c := w.service("web", kubedc.Wish{}, 80)
	c.Service.Ingress = nil
	b := Look(w.state()).Service(c.Service.UID)
	if b.EIp != "" || b.Plan.Empty() {
		t.Errorf("takes over what it does not publish: %+v", b)
	}
	c.Service.Ingress = []lb.Ingress{{IP: "100.64.0.77"}}
	w.settle()
	if len(w.eips) != 2 || w.address("web") != "[100.64.0.77]" || w.ovn["eip-slb-web-bc6y7"].Labels[LabelUID] != string(e.UID) {
		t.Errorf("EIps %v, OvnEips %v, address %s", w.eips, w.ovn, w.address("web"))
	}
	if s := w.eips["slb-web-bc6y7"].Status; len(s.Owners) != 1 || s.Owners[0].OwnerRef != "shalb-dev/web" || s.OvnEIpRef != "eip-slb-web-bc6y7" {
		t.Errorf("status %+v", s)
	}
	clear(w.services)
	w.settle()
	if len(w.eips) != 1 || len(w.ovn) != 1 {
		t.Errorf("left: %v, %v", w.eips, w.ovn)
	}
}

// With ovn.eips: use somebody else serves EIps. Only our own are made and deleted.
func TestUse(t *testing.T) {
	w := newWorld(t)
	w.serves = false
	theirs := func(name, address string) {
		w.shared(name, address).Labels = nil
		w.kubeOVN()
	}
	theirs("theirs-web", "100.64.0.50")
	w.eip("web", api.EIpSpec{}).Status = api.EIpStatus{IPAddress: "100.64.0.50", OvnEIpRef: "theirs-web", Ready: true, OwnershipType: api.Released, DeleteReleased: true}
	c := w.service("auto", kubedc.Wish{}, 80)
	w.service("bound", kubedc.Wish{EIp: "web"}, 80)
	w.service("fixed", kubedc.Wish{Addresses: addr("100.64.0.60")}, 80)
	w.service("same", kubedc.Wish{Addresses: addr("100.64.0.50")}, 81)
	w.settle()
	name := AutoName(c.Service.Key, c.Service.UID, c.Wish)
	e := w.eips[name]
	if e == nil || len(e.Finalizers) > 0 || e.Status.OvnEIpRef != "" || len(w.ovn) != 2 || w.address("bound") != "[100.64.0.50]" || w.address("same") != "[100.64.0.50]" {
		t.Errorf("EIp %+v, OvnEips %v", e, w.ovn)
	}
	if !strings.Contains(w.reason("fixed"), "InvalidRequest: The Service requests 100.64.0.60, but no EIp of namespace shalb-dev has that") {
		t.Errorf("says %s", w.reason("fixed"))
	}
	w.now = w.now.Add(Patience)
	if !strings.Contains(w.reason("auto"), "kube-dc's manager has not given it one") {
		t.Errorf("says %s", w.reason("auto"))
	}
	served := e.DeepCopy()
	theirs("theirs-auto", "100.64.0.51")
	served.Status = api.EIpStatus{IPAddress: "100.64.0.51", OvnEIpRef: "theirs-auto", Ready: true, OwnershipType: api.Released}
	w.store(w.eips, name, served)
	w.settle()
	if w.address("auto") != "[100.64.0.51]" {
		t.Errorf("has %s", w.address("auto"))
	}
	w.writes = nil
	clear(w.services)
	w.settle()
	if w.eips[name] != nil || w.eips["web"] == nil || len(w.writes) != 1 {
		t.Errorf("EIps %v, writes %v", w.eips, w.writes)
	}
}

// Who goes from ovn.eips: serve to use leaves EIps to somebody else: no finalizer stays on
// them, and no status is written. One that was being deleted still gives its address back.
func TestLeave(t *testing.T) {
	w := newWorld(t)
	w.eip("user", api.EIpSpec{})
	w.eip("doomed", api.EIpSpec{})
	w.service("web", kubedc.Wish{}, 80)
	w.service("held", kubedc.Wish{EIp: "doomed"}, 80)
	w.settle()
	was := w.address("web")
	remove1(w, w.eips, "doomed")
	w.settle()
	given := w.eips["doomed"].Status.OvnEIpRef
	w.serves, w.writes = false, nil
	w.settle()
	for name, e := range w.eips {
		if slices.Contains(e.Finalizers, Finalizer) {
			t.Errorf("EIp %s has finalizers %v", name, e.Finalizers)
		}
	}
	if w.eips["user"] == nil || w.eips["doomed"] != nil || w.ovn[given] != nil || w.address("web") != was {
		t.Errorf("EIps %v, OvnEips %v; web has %s, had %s", w.eips, w.ovn, w.address("web"), was)
	}
	for _, write := range w.writes {
		if !strings.Contains(write, "finalizers") && !strings.HasPrefix(write, "delete OvnEip "+given) {
			t.Errorf("writes %s", write)
		}
	}
}

// Whatever fails, and wherever the process ends, nothing is leaked, no address is released
// while rows have it, and in the end everybody has what he asks for.
func TestFaults(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		w.eip("user", api.EIpSpec{})
		f := func() error {
			switch r.IntN(6) {
			case 0:
				return errRefused
			case 1:
				return errLost
			}
			return nil
		}
		for range 40 {
			name := string(rune('a' + r.IntN(4)))
			switch r.IntN(8) {
			case 0:
				delete(w.services, name)
			case 1, 2:
				w.service(name, kubedc.Wish{}, 80, uint16(r.IntN(3)))
			case 3:
				w.service(name, kubedc.Wish{EIp: []string{"user", kubedc.DefaultGateway, "none"}[r.IntN(3)]}, uint16(80+r.IntN(2)))
			case 4:
				w.service(name, kubedc.Wish{Addresses: addr([]string{"100.64.0.20", "168.119.17.55"}[r.IntN(2)])}, 80)
			case 5:
				w.service(name, kubedc.Wish{NetworkType: []string{kubedc.Public, kubedc.Cloud}[r.IntN(2)]}, 80)
			case 6:
				if all := slices.Sorted(maps.Keys(w.ovn)); r.IntN(3) == 0 {
					if o := w.ovn[all[r.IntN(len(all))]]; o.Labels[LabelUID] != "" {
						w.stolen[o.Name] = true
						remove1(w, w.ovn, o.Name)
					}
				}
			case 7:
				w.now = w.now.Add(time.Duration(r.IntN(40)) * time.Second)
			}
			w.turn(f)
			if r.IntN(2) == 0 {
				w.kubeOVN()
			}
		}
		for range 4 {
			w.settle()
			w.now = w.now.Add(Patience)
		}
		w.settle()
		for name, c := range w.services {
			if b := Look(w.state()).Service(c.Service.UID); b.Reason == nil && len(b.Addresses) != 1 {
				t.Errorf("seed %d: Service %s has nothing, and no reason: %+v", seed, name, b)
			}
		}
		children := 0
		for _, o := range w.ovn {
			if o.Labels[LabelUID] != "" {
				children++
			}
		}
		alone := 0
		for _, e := range w.eips {
			if e.Spec.ChildRef == "" {
				alone++
			}
		}
		if children != alone {
			t.Errorf("seed %d: %d EIps, %d OvnEips", seed, alone, children)
		}
		clear(w.services)
		w.settle()
		if names := slices.Sorted(maps.Keys(w.eips)); !slices.Equal(names, []string{kubedc.DefaultGateway, "user"}) || len(w.rows) > 0 {
			t.Errorf("seed %d: left are EIps %v, rows %v", seed, names, w.rows)
		}
		for _, e := range w.eips {
			if e.Status.OwnershipType != api.Released || len(e.Status.Owners) > 0 {
				t.Errorf("seed %d: EIp %s: %+v", seed, e.Name, e.Status)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, strings.Join(w.writes, "\n"))
		}
	}
}
