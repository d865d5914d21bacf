package eip

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
)

const namespace = "shalb-dev"

// world is an API server with the objects of one project, a kube-ovn that allocates, and
// a database with rows of Services.
type world struct {
	t      testing.TB
	now    time.Time
	serial int
	serves bool

	services map[string]*Claim
	eips     map[string]*api.EIp
	fips     map[string]*api.FIp
	rules    map[string]*kubeovn.OvnDnatRule
	ovn      map[string]*kubeovn.OvnEip
	subnets  []*kubeovn.Subnet
	vpc      *kubeovn.Vpc
	rows     map[types.NamespacedName][]Row

	// refuses are addresses that kube-ovn does not give.
	refuses map[string]bool
	full    bool
	// stolen are OvnEips that somebody else has deleted: their rows may outlive them.
	stolen map[string]bool
	writes []string
	book   *bookOf
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, now: time.Unix(1_800_000_000, 0), serves: true, services: map[string]*Claim{}, eips: map[string]*api.EIp{}, fips: map[string]*api.FIp{}, rules: map[string]*kubeovn.OvnDnatRule{},
		ovn: map[string]*kubeovn.OvnEip{}, rows: map[types.NamespacedName][]Row{}, refuses: map[string]bool{}, stolen: map[string]bool{},
	}
	w.subnets = []*kubeovn.Subnet{
		{ObjectMeta: metav1.ObjectMeta{Name: "ext-cloud", Labels: map[string]string{kubedc.LabelNetworkType: kubedc.Cloud}}, Spec: kubeovn.SubnetSpec{CIDRBlock: "100.64.0.0/24", Vlan: "v"}, Status: kubeovn.SubnetStatus{V4Available: "200"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "ext-public", Labels: map[string]string{kubedc.LabelNetworkType: kubedc.Public}}, Spec: kubeovn.SubnetSpec{CIDRBlock: "168.119.17.48/28", Vlan: "v"}, Status: kubeovn.SubnetStatus{V4Available: "9"}},
	}
	w.vpc = &kubeovn.Vpc{ObjectMeta: w.meta(namespace), Spec: kubeovn.VpcSpec{Namespaces: []string{namespace}}}
	w.ovn["shalb-dev-ext-cloud"] = &kubeovn.OvnEip{ObjectMeta: w.meta("shalb-dev-ext-cloud"), Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext-cloud", Type: "lrp"}}
	w.eip(kubedc.DefaultGateway, api.EIpSpec{ChildRef: "shalb-dev-ext-cloud"})
	w.kubeOVN()
	return w
}

func (w *world) meta(name string) metav1.ObjectMeta {
	w.serial++
	return metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + strconv.Itoa(w.serial)), ResourceVersion: strconv.Itoa(w.serial), CreationTimestamp: metav1.NewTime(w.now)}
}

func (w *world) eip(name string, spec api.EIpSpec) *api.EIp {
	e := &api.EIp{ObjectMeta: w.meta(name), Spec: spec}
	e.Namespace = namespace
	w.eips[name] = e
	return e
}

// service creates or changes a Service.
func (w *world) service(name string, wish kubedc.Wish, ports ...uint16) *Claim {
	c := w.services[name]
	if c == nil {
		w.serial++
		c = &Claim{Service: &lb.Service{Key: types.NamespacedName{Namespace: namespace, Name: name}, UID: types.UID("svc-" + strconv.Itoa(w.serial)),
			Created: w.now, LoadBalancer: true, Frontend: lb.Frontend{Families: []lb.Family{lb.IPv4}}}}
		w.services[name] = c
		w.now = w.now.Add(time.Second)
	}
	c.Service.Ports = nil
	for _, p := range ports {
		c.Service.Ports = append(c.Service.Ports, lb.FrontendPort{Port: lb.Port{Protocol: "TCP", Number: p}})
	}
	wish.Ports = c.Service.PortList()
	c.Wish = wish
	return c
}

func (w *world) state() State {
	s := State{Namespace: namespace, Serves: w.serves, Names: map[string]types.UID{}, OvnEips: maps.Clone(w.ovn), Subnets: w.subnets, Vpcs: map[string]*kubeovn.Vpc{w.vpc.Name: w.vpc}, Now: w.now, Patience: Patience}
	for _, name := range slices.Sorted(maps.Keys(w.services)) {
		c := *w.services[name]
		service := *c.Service
		c.Service = &service
		s.Claims, s.Names[name] = append(s.Claims, c), service.UID
	}
	s.EIps, s.FIps = slices.Collect(maps.Values(w.eips)), slices.Collect(maps.Values(w.fips))
	for _, r := range w.rules {
		number, err := strconv.ParseUint(r.Spec.ExternalPort, 10, 16)
		if err == nil {
			s.Rules = map[string][]Rule{r.Spec.OvnEip: {{Name: r.Name, Port: lb.Port{Protocol: "TCP", Number: uint16(number)}}}}
		}
	}
	for _, rows := range w.rows {
		s.Rows = append(s.Rows, rows...)
	}
	n := kubedc.Network{Vpcs: []*kubeovn.Vpc{w.vpc}, Subnets: w.subnets, EIps: s.EIps, OvnEips: slices.Collect(maps.Values(w.ovn))}
	if p, ok, _ := kubedc.Locate(&metav1.ObjectMeta{Name: namespace}, n); ok {
		s.Place = &p
	}
	return s
}

var (
	errRefused = errors.New("refused")
	errLost    = errors.New("the answer is lost")
)

// do writes one step, as an API server does.
func (w *world) do(step lb.Step) error {
	body := step.Body.(Write)
	w.writes = append(w.writes, step.String())
	switch o := body.Object.(type) {
	case *api.EIp:
		return write(w, w.eips, o.Name, step, o)
	case *kubeovn.OvnEip:
		return write(w, w.ovn, o.Name, step, o)
	case *kubeovn.Vpc:
		all := map[string]*kubeovn.Vpc{w.vpc.Name: w.vpc}
		err := write(w, all, o.Name, step, o)
		w.vpc = all[w.vpc.Name]
		return err
	}
	w.t.Fatalf("a step for %T", body.Object)
	return nil
}

func write[T interface {
	compat.Object
	comparable
}](w *world, all map[string]T, name string, step lb.Step, o T) error {
	body := step.Body.(Write)
	have, there := all[name]
	switch step.Verb {
	case lb.VerbCreate:
		if there {
			return errors.New("already exists")
		}
		made := o.DeepCopyObject().(T)
		m := w.meta(name)
		made.SetUID(m.UID)
		made.SetResourceVersion(m.ResourceVersion)
		made.SetCreationTimestamp(m.CreationTimestamp)
		all[name] = made
	case lb.VerbUpdate:
		if !there || have.GetResourceVersion() != o.GetResourceVersion() {
			return errors.New("conflict")
		}
		merged := reflect.New(reflect.TypeOf(o).Elem()).Interface().(T)
		var change map[string]any
		if err := json.Unmarshal(body.Patch, &change); err != nil {
			w.t.Fatal(err)
		}
		if _, status := change["status"]; status != body.Status || len(change) > 2 {
			w.t.Fatalf("patch %s", body.Patch)
		}
		raw, _ := json.Marshal(have)
		var object map[string]any
		_ = json.Unmarshal(raw, &object)
		mergeInto(object, change)
		raw, _ = json.Marshal(object)
		if err := json.Unmarshal(raw, merged); err != nil {
			w.t.Fatal(err)
		}
		w.store(all, name, merged)
	case lb.VerbDelete:
		if pre := body.Preconditions(); !there || *pre.UID != have.GetUID() || *pre.ResourceVersion != have.GetResourceVersion() {
			return errors.New("conflict")
		}
		remove1(w, all, name)
	default:
		w.t.Fatalf("step %s", step)
	}
	return nil
}

// mergeInto applies a JSON merge patch. Lists are replaced as they are.
func mergeInto(object, change map[string]any) {
	for key, value := range change {
		part, isMap := value.(map[string]any)
		into, hadMap := object[key].(map[string]any)
		switch {
		case value == nil:
			delete(object, key)
		case isMap && hadMap:
			mergeInto(into, part)
		case isMap:
			object[key] = part
		default:
			if list, ok := value.([]any); ok && len(list) == 0 {
				delete(object, key)
				continue
			}
			object[key] = value
		}
	}
}

func (w *world) store(all any, name string, o compat.Object) {
	w.serial++
	o.SetResourceVersion(strconv.Itoa(w.serial))
	gone := o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0
	switch all := all.(type) {
	case map[string]*api.EIp:
		all[name] = o.(*api.EIp)
		if gone {
			delete(all, name)
		}
	case map[string]*kubeovn.OvnEip:
		all[name] = o.(*kubeovn.OvnEip)
		if gone {
			w.released(o.(*kubeovn.OvnEip))
			delete(all, name)
		}
	case map[string]*kubeovn.Vpc:
		all[name] = o.(*kubeovn.Vpc)
	}
}

func remove1[T compat.Object](w *world, all map[string]T, name string) {
	o := all[name].DeepCopyObject().(T)
	if o.GetDeletionTimestamp() == nil {
		at := metav1.NewTime(w.now)
		o.SetDeletionTimestamp(&at)
	}
	w.store(all, name, o)
}

// released checks that no Service has an address that goes back to kube-ovn.
func (w *world) released(o *kubeovn.OvnEip) {
	for _, a := range addressesOf(o) {
		for _, rows := range w.rows {
			for _, row := range rows {
				if row.Address == a && !w.stolen[o.Name] {
					w.t.Errorf("%s is released, and Service %s still has it", a, row.Service)
				}
			}
		}
	}
}

const finalizerOVN = "kubeovn.io/kube-ovn-controller"

// kubeOVN takes one look at all OvnEips.
func (w *world) kubeOVN() {
	for _, subnet := range w.vpc.Spec.ExtraExternalSubnets {
		if name := w.vpc.Name + "-" + subnet; w.ovn[name] == nil {
			w.ovn[name] = &kubeovn.OvnEip{ObjectMeta: w.meta(name), Spec: kubeovn.OvnEipSpec{ExternalSubnet: subnet, Type: "lrp"}}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.ovn)) {
		o := w.ovn[name].DeepCopy()
		if o.DeletionTimestamp != nil {
			o.Finalizers = nil
			w.store(w.ovn, name, o)
			continue
		}
		if o.Status.MACAddress != "" {
			continue
		}
		if o.Spec.Type != "lrp" || o.Annotations["ovn.kubernetes.io/vpc_nat"] != "" {
			w.t.Errorf("asked for %+v", o)
		}
		a := w.free(o)
		if a == "" {
			continue
		}
		o.Spec.V4IP, o.Spec.MACAddress = a, "02:00:00:00:00:01"
		o.Status = kubeovn.OvnEipStatus{Type: "lrp", Ready: true, V4IP: a, MACAddress: o.Spec.MACAddress}
		o.Finalizers = []string{finalizerOVN}
		w.store(w.ovn, name, o)
	}
}

func (w *world) free(o *kubeovn.OvnEip) string {
	used := map[string]bool{}
	for _, other := range w.ovn {
		used[other.Status.V4IP] = true
	}
	ok := func(a string) bool { return !used[a] && !w.refuses[a] && !w.full }
	if o.Spec.V4IP != "" {
		if ok(o.Spec.V4IP) {
			return o.Spec.V4IP
		}
		return ""
	}
	for _, s := range w.subnets {
		if s.Name == o.Spec.ExternalSubnet {
			p := netip.MustParsePrefix(s.Spec.CIDRBlock)
			for a := p.Addr().Next().Next(); p.Contains(a); a = a.Next() {
				if ok(a.String()) {
					return a.String()
				}
			}
		}
	}
	return ""
}

// fault decides what becomes of each write; nil is that all succeed. errRefused: it is not
// done; errLost: it is, but nobody hears of it. Either ends the turn.
type fault func() error

// turn takes one look and does what can be done, in the order in which a controller does:
// rows before status, and Services before EIps. It says whether anything was done.
func (w *world) turn(f fault) (did bool) {
	v := Look(w.state())
	w.compareBook(v)
	try := func(p lb.Plan) bool {
		for _, step := range p.Steps {
			did = true
			err := error(nil)
			if f != nil {
				err = f()
			}
			if errors.Is(err, errRefused) {
				return false
			}
			if w.do(step) != nil || err != nil {
				return false
			}
		}
		return true
	}
	for key := range w.rows {
		if w.services[key.Name] == nil {
			delete(w.rows, key)
			did = true
		}
	}
	// Services that lose an address let it go before others take it.
	for _, adding := range []bool{false, true} {
		for _, name := range slices.Sorted(maps.Keys(w.services)) {
			c := w.services[name]
			b := v.Service(c.Service.UID)
			if adding && !try(b.Plan) {
				return true
			}
			if w.apply(c, b, adding) {
				did = true
			}
			if adding && f != nil && f() != nil {
				return true
			}
		}
	}
	if did {
		v = Look(w.state())
	}
	for _, name := range w.eipNames() {
		p, _ := v.EIp(name)
		if !try(p) {
			return true
		}
	}
	return did
}

// eipNames are those of EIps that are there, or that OvnEips were made for.
func (w *world) eipNames() []string {
	names := slices.Collect(maps.Keys(w.eips))
	for _, o := range w.ovn {
		if owner, ok := ownerOf(o); ok {
			names = append(names, owner.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// apply writes the rows and the status of a Service.
func (w *world) apply(c *Claim, b Binding, adding bool) bool {
	key, ports := c.Service.Key, c.Service.PortList()
	var rows []Row
	for _, a := range b.Addresses {
		rows = append(rows, Row{Service: key, Address: a, Ports: ports})
	}
	had := w.rows[key]
	if !adding {
		rows = slices.DeleteFunc(slices.Clone(had), func(r Row) bool { return !slices.Contains(b.Addresses, r.Address) })
		for i := range rows {
			rows[i].Ports = slices.DeleteFunc(slices.Clone(rows[i].Ports), func(p lb.Port) bool { return !slices.Contains(ports, p) })
		}
	}
	same := fmt.Sprint(had) == fmt.Sprint(rows)
	if w.rows[key] = rows; len(rows) == 0 {
		delete(w.rows, key)
	}
	for other, theirs := range w.rows {
		for _, r := range theirs {
			for _, mine := range rows {
				if other != key && r.Address == mine.Address && slices.ContainsFunc(r.Ports, func(p lb.Port) bool { return slices.Contains(mine.Ports, p) }) {
					w.t.Errorf("%s and %s both have a port of %s", key, other, r.Address)
				}
			}
		}
	}
	if adding {
		var ingress []lb.Ingress
		for _, a := range b.Addresses {
			ingress = append(ingress, lb.Ingress{IP: a.String()})
		}
		same = same && slices.Equal(c.Service.Ingress, ingress)
		c.Service.Ingress = ingress
	}
	return !same
}

// settle goes on until nothing is left to do, and fails if that takes too long.
func (w *world) settle() {
	w.t.Helper()
	for range 60 {
		did := w.turn(nil)
		w.kubeOVN()
		if !did && !w.turn(nil) {
			return
		}
	}
	w.t.Fatalf("it does not settle: %v", w.writes[max(0, len(w.writes)-8):])
}

func (w *world) reason(name string) string {
	b := Look(w.state()).Service(w.services[name].Service.UID)
	if b.Reason == nil {
		return ""
	}
	return b.Reason.String()
}

// address is what a Service publishes.
func (w *world) address(name string) string {
	var out []string
	for _, i := range w.services[name].Service.Ingress {
		out = append(out, i.IP)
	}
	return fmt.Sprint(out)
}

// rule is an OvnDnatRule for the OvnEip of an EIp.
func (w *world) rule(e *api.EIp, port string) {
	w.rules["theirs"] = &kubeovn.OvnDnatRule{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: kubeovn.OvnDnatRuleSpec{OvnEip: OvnEipName(e), Protocol: "tcp", ExternalPort: port}}
}
