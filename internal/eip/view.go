package eip

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
)

// State is all that is known about one namespace. Objects belong to a cache: they are
// not changed. All of them must have been read: what is not here does not exist.
type State struct {
	Namespace string
	// Place is where its Services are served; nil if that is not known, and then Problem
	// may say why.
	Place   *kubedc.Place
	Problem string
	// Serves says that EIps are served here. Else somebody else does: only EIps of our
	// own are made and deleted, and no status is written.
	Serves bool

	// Claims are the Services of the backend's classes. Those that are being deleted are
	// not among them.
	Claims []Claim
	// Names has the UIDs of all Services of the namespace, of any type and class.
	Names map[string]types.UID
	// Published are the addresses of those that are not claims.
	Published map[types.UID][]netip.Addr

	EIps    []*api.EIp                 // of the namespace
	FIps    []*api.FIp                 // of the namespace
	OvnEips map[string]*kubeovn.OvnEip // all of the cluster
	Subnets []*kubeovn.Subnet
	Vpcs    map[string]*kubeovn.Vpc

	// Elsewhere are EIps of other namespaces whose status names an OvnEip without our labels,
	// by OvnEip.
	Elsewhere map[string][]*api.EIp

	// Rules are ports that kube-ovn's OvnDnatRules have, by OvnEip.
	Rules map[string][]Rule

	// Rows are what load balancers of this cluster have in OVN's database, of any
	// namespace. RowsUnknown says that the database cannot be read: then no address is
	// released.
	Rows        []Row
	RowsUnknown bool
	// Others are Services of other namespaces, of the backend's classes, that have rows here:
	// several namespaces may share the gateway of one router.
	Others map[types.NamespacedName]*lb.Service

	Now time.Time
	// Patience is how long kube-ovn may take for an address before anybody is told, and how
	// old something must be to be deleted if what it is for is not known: that may have been
	// created a moment ago.
	Patience time.Duration
}

// Claim is one Service and what it asks for. Invalid says that this cannot be understood:
// it keeps what it has.
type Claim struct {
	Service *lb.Service
	Wish    kubedc.Wish
	Invalid bool
}

// Rule is an OvnDnatRule, which has a port of an OvnEip.
type Rule struct {
	Name string
	Port lb.Port
}

// Row is an address that a Service has in OVN's database.
type Row struct {
	Service types.NamespacedName
	Address netip.Addr
	Ports   []lb.Port
}

// Patience is that of everybody but tests: see State.
const Patience = 30 * time.Second

// View is a State with all that follows from it.
type View struct {
	State
	eips   map[string]*record
	bounds map[types.UID]*bound
	// holder has the OvnEip of each address that is allocated. kube-ovn may give an IPv6 address
	// to two of them: the older one has it.
	holder map[netip.Addr]string
	fipOf  map[string]string // by EIp
	rowsAt map[netip.Addr][]Row
	living map[types.UID]struct{} // Services of the namespace
}

// record is one EIp.
type record struct {
	object *api.EIp
	ovn    *kubeovn.OvnEip // what has its address; nil if there is none
	// refused says that childRef names what belongs to somebody else.
	refused bool
	// addresses that can be used.
	addresses []netip.Addr
	// known are those, and what it had or will have.
	known  []netip.Addr
	fip    string // a FIp that has it
	claims []*bound
	rows   []Row
}

// bound is one Service and its EIps.
type bound struct {
	Claim
	// wanted is what it asks for: nil with a reason, or with make if it is to be made.
	wanted *record
	make   *api.EIp
	reason *lb.Reason
	// current is the EIp whose address it publishes.
	current *record
	// lost has, by EIp, why it cannot have its ports there.
	lost map[*record]*lb.Reason
}

// Look returns what follows from s.
func Look(s State) *View {
	v := &View{State: s, eips: map[string]*record{}, bounds: map[types.UID]*bound{}}
	v.index()
	for _, e := range s.EIps {
		v.eips[e.Name] = v.read(e)
	}
	if s.Place == nil {
		return v
	}
	owned := map[types.UID][]*record{}
	holders := map[netip.Addr][]*record{}
	for _, r := range v.sorted() {
		if r.ending() {
			continue
		}
		owned[types.UID(r.object.Labels[LabelService])] = append(owned[types.UID(r.object.Labels[LabelService])], r)
		for _, a := range r.known {
			holders[a] = append(holders[a], r)
		}
	}
	for _, c := range slices.SortedFunc(slices.Values(s.Claims), olderClaim) {
		b := &bound{Claim: c, lost: map[*record]*lb.Reason{}}
		v.bounds[c.Service.UID] = b
		b.current = currentOf(c.Service, holders)
		if !c.Invalid {
			v.target(b, owned[c.Service.UID], holders)
		}
		for _, r := range []*record{b.wanted, b.current} {
			if r != nil && (len(r.claims) == 0 || r.claims[len(r.claims)-1] != b) {
				r.claims = append(r.claims, b)
			}
		}
	}
	for ovnEip, group := range v.groups() {
		v.arbitrate(group, v.Rules[ovnEip])
	}
	return v
}

// index notes what is looked for by something else than its name.
func (v *View) index() {
	v.holder, v.fipOf, v.rowsAt, v.living = map[netip.Addr]string{}, map[string]string{}, map[netip.Addr][]Row{}, map[types.UID]struct{}{}
	for name, o := range v.OvnEips {
		for _, a := range addressesOf(o) {
			if had := v.OvnEips[v.holder[a]]; had == nil || olderOvnEip(o, had) {
				v.holder[a] = name
			}
		}
	}
	for _, f := range v.FIps {
		for _, e := range []string{f.Spec.EIp, f.Status.EIp} {
			if had := v.fipOf[e]; e != "" && (had == "" || f.Name < had) {
				v.fipOf[e] = f.Name
			}
		}
	}
	for _, row := range v.Rows {
		v.rowsAt[row.Address] = append(v.rowsAt[row.Address], row)
	}
	for _, uid := range v.Names {
		v.living[uid] = struct{}{}
	}
}

// ending says that an EIp is being deleted, and has no address that could be used until
// then.
func (r *record) ending() bool {
	return r.object.DeletionTimestamp != nil && len(r.addresses) == 0
}

func olderClaim(a, b Claim) int {
	return cmp.Or(a.Service.Created.Compare(b.Service.Created), cmp.Compare(a.Service.UID, b.Service.UID))
}

func (v *View) sorted() []*record {
	out := make([]*record, 0, len(v.eips))
	for _, r := range v.eips {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *record) int { return cmp.Compare(a.object.Name, b.object.Name) })
	return out
}

// groups are EIps that have one address: several can refer to one OvnEip.
func (v *View) groups() map[string][]*record {
	out := map[string][]*record{}
	for _, r := range v.sorted() {
		key := "EIp " + r.object.Name
		if r.ovn != nil {
			key = r.ovn.Name
		}
		out[key] = append(out[key], r)
	}
	return out
}

// read finds out what an EIp has.
func (v *View) read(e *api.EIp) *record {
	r := &record{object: e, fip: v.fipOf[e.Name]}
	if v.Serves {
		r.ovn, r.refused = v.ovnEipOf(e)
		if r.ovn != nil && r.ovn.Status.Ready && r.ovn.DeletionTimestamp == nil {
			r.addresses = v.held(r.ovn)
		}
	} else {
		if o := v.OvnEips[e.Status.OvnEIpRef]; o != nil && v.assigned(o, e) {
			r.ovn = o
		}
		if a, err := lb.ParseAddr(e.Status.IPAddress); err == nil && e.Status.Ready && e.DeletionTimestamp == nil && r.ovn != nil && slices.Contains(v.held(r.ovn), a) {
			r.addresses = v.held(r.ovn)
		}
	}
	r.known = v.knownOf(r)
	for _, a := range r.known {
		r.rows = append(r.rows, v.rowsAt[a]...)
	}
	return r
}

// knownOf are the addresses that the EIp has or had, be they ready or not. One that it
// had is somebody else's as soon as another OvnEip has it.
func (v *View) knownOf(r *record) []netip.Addr {
	out := slices.Clone(r.addresses)
	if r.ovn != nil {
		for _, a := range v.held(r.ovn) {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	if a, err := lb.ParseAddr(r.object.Status.IPAddress); err == nil && !slices.Contains(out, a) {
		if holder, ok := v.holder[a]; !ok || r.ovn != nil && holder == r.ovn.Name {
			out = append(out, a)
		}
	}
	return out
}
