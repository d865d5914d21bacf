package eip

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
)

// bookOf is what a Book says of the world. It lives as long as the world does, and is told
// of what has changed, and of no more.
type bookOf struct {
	*Book
	services map[string]Claim
	eips     map[string]*api.EIp
	fips     map[string]*api.FIp
	ovn      map[string]*kubeovn.OvnEip
	rules    map[string]*kubeovn.OvnDnatRule
	vpc      *kubeovn.Vpc
}

// tell tells a book what has changed since it was told before.
func (w *world) tell(b *bookOf) {
	in := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: namespace, Name: name} }
	services := map[string]Claim{}
	for name, c := range w.services {
		service := *c.Service
		services[name] = Claim{Service: &service, Wish: c.Wish, Invalid: c.Invalid}
	}
	claimsChanged(b.services, services, func(name string, c *Claim) {
		if c == nil {
			b.Service(in(name), "", nil)
			return
		}
		b.Service(in(name), c.Service.UID, c)
	})
	pointers(&b.eips, w.eips, func(name string, e *api.EIp) { b.EIp(in(name), e) })
	pointers(&b.fips, w.fips, func(name string, f *api.FIp) { b.FIp(in(name), f) })
	pointers(&b.ovn, w.ovn, func(name string, o *kubeovn.OvnEip) { b.OvnEip(name, o) })
	pointers(&b.rules, w.rules, func(name string, r *kubeovn.OvnDnatRule) { b.Rule(name, r) })
	if b.vpc != w.vpc {
		b.Vpc(w.vpc.Name, w.vpc)
	}
	for _, s := range w.subnets {
		b.Subnet(s.Name, s)
	}
	b.services, b.vpc = services, w.vpc
}

func claimsChanged(before, after map[string]Claim, tell func(string, *Claim)) {
	for name := range before {
		if _, there := after[name]; !there {
			tell(name, nil)
		}
	}
	for name, c := range after {
		if !reflect.DeepEqual(before[name], c) {
			tell(name, &c)
		}
	}
}

func pointers[T any](before *map[string]*T, after map[string]*T, tell func(string, *T)) {
	for name := range *before {
		if after[name] == nil {
			tell(name, nil)
		}
	}
	now := map[string]*T{}
	for name, o := range after {
		if now[name] = o; (*before)[name] != o {
			tell(name, o)
		}
	}
	*before = now
}

func (w *world) rowsAt(a netip.Addr, ports []lb.Port) (out []Row, err error) {
	for _, rows := range w.rows {
		for _, r := range rows {
			if r.Address != a {
				continue
			}
			if len(ports) > 0 {
				r.Ports = slices.DeleteFunc(slices.Clone(r.Ports), func(p lb.Port) bool { return !slices.Contains(ports, p) })
			}
			if len(r.Ports) > 0 || len(ports) == 0 {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// compareBook checks that looks at one Service or EIp say the same as one at everything.
func (w *world) compareBook(whole *View) {
	w.t.Helper()
	if w.book == nil || w.book.serves != w.serves {
		w.book = &bookOf{Book: NewBook(w.serves)}
	}
	w.tell(w.book)
	for name, c := range w.services {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		got, want := w.book.LookAtService(key, w.rowsAt, w.now).Service(c.Service.UID), whole.Service(c.Service.UID)
		if !reflect.DeepEqual(got, want) {
			w.t.Errorf("Service %s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	for _, name := range w.eipNames() {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		v := w.book.LookAtEIp(key, w.rowsAt, w.now)
		plan, again := v.EIp(name)
		wanted, later := whole.EIp(name)
		if plan.String() != wanted.String() || again != later || !reflect.DeepEqual(bodies(plan), bodies(wanted)) {
			w.t.Errorf("EIp %s:\n got %v, %v\nwant %v, %v", name, plan, again, wanted, later)
		}
		for _, s := range whole.Concerned(name) {
			uid := w.services[s.Name].Service.UID
			if !slices.Contains(w.book.ServicesOf(key), s) || !slices.Contains(w.book.EIpsOf(s), name) {
				w.t.Errorf("EIp %s and Service %s do not know of each other", name, s)
			}
			if got, want := v.Service(uid), whole.Service(uid); !reflect.DeepEqual(got, want) {
				w.t.Errorf("Service %s in a look at EIp %s:\n got %+v\nwant %+v", s, name, got, want)
			}
		}
	}
}

func bodies(p lb.Plan) (out []string) {
	for _, s := range p.Steps {
		out = append(out, string(s.Body.(Write).Patch))
	}
	return out
}

// filled is a book with many Services in one namespace: each with an EIp of its own, or
// all at one.
func filled(n int, shared bool) (*Book, Rows) {
	b := NewBook(true)
	now := time.Unix(1_800_000_000, 0)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(now)}
	}
	cluster := func(name string) metav1.ObjectMeta { m := meta(name); m.Namespace = ""; return m }
	b.Vpc(namespace, &kubeovn.Vpc{ObjectMeta: cluster(namespace), Spec: kubeovn.VpcSpec{Namespaces: []string{namespace}}})
	b.Subnet("ext", &kubeovn.Subnet{ObjectMeta: metav1.ObjectMeta{Name: "ext", Labels: map[string]string{kubedc.LabelNetworkType: kubedc.Public}}, Spec: kubeovn.SubnetSpec{CIDRBlock: "10.0.0.0/8"}})
	gateway := namespace + "-ext"
	b.OvnEip(gateway, &kubeovn.OvnEip{ObjectMeta: cluster(gateway), Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext"}, Status: kubeovn.OvnEipStatus{Ready: true, V4IP: "10.255.0.1"}})
	gw := &api.EIp{ObjectMeta: meta(kubedc.DefaultGateway), Spec: api.EIpSpec{ChildRef: gateway}}
	b.EIp(types.NamespacedName{Namespace: namespace, Name: gw.Name}, gw)
	rows := map[netip.Addr]map[lb.Port]Row{}
	for i := range n {
		key := types.NamespacedName{Namespace: namespace, Name: "s" + strconv.Itoa(i)}
		port := lb.Port{Protocol: "TCP", Number: uint16(1000 + i)}
		s := &lb.Service{Key: key, UID: types.UID("svc-" + strconv.Itoa(i)), Created: now, LoadBalancer: true,
			Frontend: lb.Frontend{Families: []lb.Family{lb.IPv4}, Ports: []lb.FrontendPort{{Port: port}}}}
		a := netip.MustParseAddr("10.255.0.1")
		c := &Claim{Service: s, Wish: kubedc.Wish{EIp: kubedc.DefaultGateway}}
		if !shared {
			c.Wish = kubedc.Wish{}
			a = netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
			e := &api.EIp{ObjectMeta: meta(AutoName(key, s.UID, c.Wish)), Status: api.EIpStatus{IPAddress: a.String(), Ready: true}}
			e.Labels, e.Finalizers = map[string]string{LabelService: string(s.UID)}, []string{Finalizer}
			e.Status.OvnEIpRef = OvnEipName(e)
			b.EIp(types.NamespacedName{Namespace: namespace, Name: e.Name}, e)
			o := &kubeovn.OvnEip{ObjectMeta: cluster(OvnEipName(e)), Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext"}, Status: kubeovn.OvnEipStatus{Ready: true, V4IP: a.String()}}
			o.Labels = map[string]string{LabelUID: string(e.UID)}
			b.OvnEip(o.Name, o)
		}
		s.Ingress = []lb.Ingress{{IP: a.String()}}
		b.Service(key, s.UID, c)
		if rows[a] == nil {
			rows[a] = map[lb.Port]Row{}
		}
		rows[a][port] = Row{Service: key, Address: a, Ports: []lb.Port{port}}
	}
	return b, func(a netip.Addr, ports []lb.Port) (out []Row, err error) {
		for _, p := range ports {
			if r, has := rows[a][p]; has {
				out = append(out, r)
			}
		}
		if len(ports) == 0 {
			for _, r := range rows[a] {
				out = append(out, r)
			}
		}
		return out, nil
	}
}

// One look costs the same however many Services the namespace has.
func BenchmarkLook(b *testing.B) {
	now := time.Unix(1_800_000_100, 0)
	for _, shared := range []bool{false, true} {
		kind := "EIps of their own"
		if shared {
			kind = "one EIp"
		}
		for _, n := range []int{10, 100, 1000, 5000} {
			book, rows := filled(n, shared)
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				for i := range b.N {
					key := types.NamespacedName{Namespace: namespace, Name: "s" + strconv.Itoa(i%n)}
					v := book.LookAtService(key, rows, now)
					if got := v.Service(types.UID("svc-" + strconv.Itoa(i%n))); len(got.Addresses) != 1 || got.Reason != nil {
						b.Fatalf("%+v", got)
					}
					if !shared {
						e := types.NamespacedName{Namespace: namespace, Name: eipOf(v, i%n)}
						book.LookAtEIp(e, rows, now).EIp(e.Name)
					}
				}
			})
		}
	}
}

func eipOf(v *View, i int) string { return v.Service(types.UID("svc-" + strconv.Itoa(i))).EIp }
