package eip

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/lb"
)

// neighbourhood grows by all that what is in it depends on.
type neighbourhood struct {
	book  *Book
	name  string
	space *space

	claims map[string]*Claim
	eips   map[string]*api.EIp
	made   map[string]struct{} // OvnEips
	// ports of the claims. If it is nil, all claims of an EIp are in it; else only those
	// that need one of these.
	ports map[lb.Port]struct{}
}

func (b *Book) neighbourhood(namespace string) *neighbourhood {
	return &neighbourhood{book: b, name: namespace, space: b.space(namespace), claims: map[string]*Claim{}, eips: map[string]*api.EIp{}}
}

func (n *neighbourhood) addClaim(name string) {
	c := n.space.claims[name]
	if c == nil || n.claims[name] != nil {
		return
	}
	n.claims[name] = c
	var more []lb.Port
	if n.ports != nil {
		for _, p := range c.Service.PortList() {
			if _, has := n.ports[p]; !has {
				n.ports[p] = struct{}{}
				more = append(more, p)
			}
		}
	}
	var before []*api.EIp
	if len(more) > 0 {
		before = slices.Collect(maps.Values(n.eips))
	}
	n.book.eipsOf(n.space, c, n.addEIp)
	for _, e := range before {
		n.addClaims(e, more)
	}
}

func (n *neighbourhood) addEIp(name string) {
	e := n.space.eips[name]
	if e == nil || n.eips[name] != nil {
		return
	}
	n.eips[name] = e
	if n.ports == nil {
		n.book.claimsOf(n.space, e, func(r ref) {
			for name := range n.space.claimsBy[r] {
				n.addClaim(name)
			}
		})
	} else {
		n.addClaims(e, slices.Collect(maps.Keys(n.ports)))
	}
	for _, r := range eipRefs(e) { // several may refer to one OvnEip
		if r.kind == byOvnEip {
			for other := range n.space.eipsBy[r] {
				n.addEIp(other)
			}
		}
	}
}

// addClaims adds those for an EIp that need one of the ports.
func (n *neighbourhood) addClaims(e *api.EIp, ports []lb.Port) {
	if len(ports) == 0 {
		return
	}
	n.book.claimsOf(n.space, e, func(r ref) {
		for _, p := range ports {
			for name := range n.space.claimsAt[portRef{r, p}] {
				n.addClaim(name)
			}
		}
	})
}

func (n *neighbourhood) look(rows Rows, now time.Time) *View {
	b := n.book
	b.prepare()
	s := State{Namespace: n.name, Serves: b.serves, Names: map[string]types.UID{}, Published: map[types.UID][]netip.Addr{}, OvnEips: map[string]*kubeovn.OvnEip{}, Vpcs: b.all, Now: now, Patience: b.Patience}
	place, ok, problem := b.Place(n.name)
	if s.Problem = problem; ok {
		s.Place = &place
	}
	ovnEip := func(name string) {
		if o := b.ovnEips[name]; o != nil {
			s.OvnEips[name] = o
		}
	}
	for o := range n.made {
		ovnEip(o)
	}
	var fips map[string]struct{}
	for _, e := range n.eips {
		s.EIps = append(s.EIps, e)
		for o := range b.made[labelled(n.name, e.Name)] {
			ovnEip(o)
		}
		for _, r := range eipRefs(e) {
			switch r.kind {
			case byOvnEip:
				ovnEip(r.text)
			case byAddress:
				if a, err := netip.ParseAddr(r.text); err == nil {
					for o := range b.at[a] {
						ovnEip(o)
					}
				}
			case byOwner:
				uid, is := n.space.services[r.text]
				if is {
					s.Names[r.text] = uid
				} else if name, is := n.space.uids[types.UID(r.text)]; is {
					uid = types.UID(r.text)
					s.Names[name] = uid
				}
				if published := n.space.published[uid]; len(published) > 0 {
					s.Published[uid] = published
				}
			}
		}
		fips = n.fipsOf(e, fips)
	}
	for name := range fips {
		s.FIps = append(s.FIps, n.space.fips[name])
	}
	for _, name := range slices.Collect(maps.Keys(s.OvnEips)) {
		for _, rival := range b.Rivals(name) {
			ovnEip(rival)
		}
	}
	s.Elsewhere = n.elsewhere()
	s.Rules = b.rulesFor(s.OvnEips)
	n.rows(&s, rows)
	named := []string{place.Subnet}
	for _, o := range s.OvnEips {
		named = append(named, o.Spec.ExternalSubnet)
	}
	s.Subnets = b.subnetsFor(named...)
	for _, subnet := range s.Subnets {
		ovnEip(place.Gateway(subnet.Name))
	}
	for _, c := range n.claims {
		s.Claims, s.Names[c.Service.Key.Name] = append(s.Claims, *c), c.Service.UID
	}
	return Look(s)
}

// elsewhere are EIps of other namespaces that name the same OvnEips in their status.
func (n *neighbourhood) elsewhere() (out map[string][]*api.EIp) {
	for _, e := range n.eips {
		name := e.Status.OvnEIpRef
		if o := n.book.ovnEips[name]; o == nil || o.Labels[LabelUID] != "" || out[name] != nil {
			continue
		}
		for key := range n.book.refer[name] {
			if other := n.book.GetEIp(key); key.Namespace != n.name && other.Status.OvnEIpRef == name {
				if out == nil {
					out = map[string][]*api.EIp{}
				}
				out[name] = append(out[name], other)
			}
		}
	}
	return out
}

// fipsOf adds the FIps that an EIp is about.
func (n *neighbourhood) fipsOf(e *api.EIp, into map[string]struct{}) map[string]struct{} {
	add := func(name string) {
		if into == nil {
			into = map[string]struct{}{}
		}
		into[name] = struct{}{}
	}
	for name := range n.space.fipsBy[e.Name] {
		add(name)
	}
	for _, o := range e.Status.Owners {
		if !strings.EqualFold(o.Type, ownerFIp) {
			continue
		}
		if name := strings.TrimPrefix(o.OwnerRef, n.name+"/"); n.space.fips[name] != nil {
			add(name)
			continue
		}
		for name, f := range n.space.fips {
			if string(f.UID) == o.OwnerRef {
				add(name)
			}
		}
	}
	return into
}

// rows reads those at addresses that the EIps may have.
func (n *neighbourhood) rows(s *State, rows Rows) {
	addresses := map[netip.Addr]struct{}{}
	for _, e := range s.EIps {
		if a, err := lb.ParseAddr(e.Status.IPAddress); err == nil {
			addresses[a] = struct{}{}
		}
	}
	for _, o := range s.OvnEips {
		for _, a := range addressesOf(o) {
			addresses[a] = struct{}{}
		}
	}
	ports := slices.Collect(maps.Keys(n.ports))
	for _, a := range slices.SortedFunc(maps.Keys(addresses), netip.Addr.Compare) {
		more, err := rows(a, ports)
		s.Rows, s.RowsUnknown = append(s.Rows, more...), s.RowsUnknown || err != nil
	}
	for _, row := range s.Rows {
		if row.Service.Namespace == n.name {
			continue
		}
		if c := n.book.Claim(row.Service); c != nil {
			if s.Others == nil {
				s.Others = map[types.NamespacedName]*lb.Service{}
			}
			s.Others[row.Service] = c.Service
		}
	}
}
