package eip

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/internal/lb"
)

// Rows returns what load balancers of this cluster have in OVN's database at an address:
// at some ports, or at all if there are none. An error says that they are not known.
type Rows func(address netip.Addr, ports []lb.Port) ([]Row, error)

// LookAtService returns a view in which the Service has what it has in a view of its whole
// namespace. What else is in it depends on other Services, of which it only has those that
// ask for the same ports.
func (b *Book) LookAtService(key types.NamespacedName, rows Rows, now time.Time) *View {
	n := b.neighbourhood(key.Namespace)
	n.ports = map[lb.Port]struct{}{}
	n.addClaim(key.Name)
	return n.look(rows, now)
}

// LookAtEIp returns a view in which the EIp, which may be gone, what was made for it, and
// all Services that it concerns, are as in a view of its whole namespace.
func (b *Book) LookAtEIp(key types.NamespacedName, rows Rows, now time.Time) *View {
	n := b.neighbourhood(key.Namespace)
	n.addEIp(key.Name)
	n.made = b.made[labelled(key.Namespace, key.Name)]
	for o := range n.made {
		for name := range n.space.eipsBy[ref{byUID, b.ovnEips[o].Labels[LabelUID]}] {
			n.addEIp(name)
		}
	}
	for _, name := range b.ServicesOf(key) {
		n.addClaim(name.Name)
	}
	return n.look(rows, now)
}

// EIpsOf are the EIps, by name, that a Service may have, ask for or be an owner of.
func (b *Book) EIpsOf(key types.NamespacedName) []string {
	s := b.space(key.Namespace)
	found := map[string]struct{}{}
	if c := s.claims[key.Name]; c != nil {
		b.eipsOf(s, c, func(name string) { found[name] = struct{}{} })
	}
	maps.Copy(found, s.eipsBy[ref{byOwner, key.Name}])
	if uid := s.services[key.Name]; uid != "" {
		maps.Copy(found, s.eipsBy[ref{byOwner, string(uid)}])
		maps.Copy(found, s.eipsBy[ref{byService, string(uid)}])
	}
	return slices.Collect(maps.Keys(found))
}

func (b *Book) eipsOf(s *space, c *Claim, add func(string)) {
	for _, r := range claimRefs(c) {
		for name := range s.eipsBy[r] {
			add(name)
		}
		if r.kind != byAddress {
			continue
		}
		if a, err := netip.ParseAddr(r.text); err == nil {
			for o := range b.at[a] {
				for name := range s.eipsBy[ref{byOvnEip, o}] {
					add(name)
				}
			}
		}
	}
}

// ServicesOf are the Services of the backend's classes that an EIp may concern.
func (b *Book) ServicesOf(key types.NamespacedName) (out []types.NamespacedName) {
	s := b.space(key.Namespace)
	found := map[string]struct{}{}
	if e := s.eips[key.Name]; e != nil {
		b.claimsOf(s, e, func(r ref) { maps.Copy(found, s.claimsBy[r]) })
	} else { // they may ask for it
		maps.Copy(found, s.claimsBy[ref{byName, key.Name}])
	}
	for name := range found {
		out = append(out, types.NamespacedName{Namespace: key.Namespace, Name: name})
	}
	return out
}

// claimsOf calls add with all that the claims for an EIp may refer to.
func (b *Book) claimsOf(s *space, e *api.EIp, add func(ref)) {
	for _, r := range eipRefs(e) {
		switch r.kind {
		case byOvnEip:
			if o := b.ovnEips[r.text]; o != nil {
				for _, a := range addressesOf(o) {
					add(ref{byAddress, a.String()})
				}
			}
		case byOwner:
			if uid, is := s.services[r.text]; is {
				add(ref{byService, string(uid)})
			} else {
				add(ref{byService, r.text})
			}
		default:
			add(r)
		}
	}
}

// EIpsFor are the EIps that may have an OvnEip, and the one that it was made for, which may
// be gone.
func (b *Book) EIpsFor(ovnEip string) []types.NamespacedName {
	out := slices.Collect(maps.Keys(b.refer[ovnEip]))
	if owner, ok := ownerOf(b.ovnEips[ovnEip]); ok && !slices.Contains(out, owner) {
		out = append(out, owner)
	}
	return out
}

// Rivals are other OvnEips that have an address of an OvnEip.
func (b *Book) Rivals(ovnEip string) (out []string) {
	o := b.ovnEips[ovnEip]
	if o == nil {
		return nil
	}
	for _, a := range addressesOf(o) {
		for name := range b.at[a] {
			if name != ovnEip {
				out = append(out, name)
			}
		}
	}
	return out
}

// Sharers are EIps of other namespaces that may have the OvnEip of an EIp.
func (b *Book) Sharers(key types.NamespacedName) (out []types.NamespacedName) {
	e := b.GetEIp(key)
	if e == nil {
		return nil
	}
	for _, r := range eipRefs(e) {
		if r.kind != byOvnEip {
			continue
		}
		for other := range b.refer[r.text] {
			if other.Namespace != key.Namespace {
				out = append(out, other)
			}
		}
	}
	return out
}

// EIps are those of a namespace, by name, or of all if it is "".
func (b *Book) EIps(namespace string) (out []types.NamespacedName) {
	for name, s := range b.spaces {
		if namespace == "" || namespace == name {
			for e := range s.eips {
				out = append(out, types.NamespacedName{Namespace: name, Name: e})
			}
		}
	}
	return out
}

// Services are those of a namespace, of any type and class.
func (b *Book) Services(namespace string) (out []types.NamespacedName) {
	for name := range b.space(namespace).services {
		out = append(out, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return out
}
