package eip

import (
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
)

// Book has the objects of all namespaces, with indexes: a look at one Service or EIp costs
// the same in a namespace with five as in one with thousands. It is told of each object
// that comes, changes or goes. It is not safe for concurrent use.
type Book struct {
	Patience time.Duration // see State

	serves bool
	spaces map[string]*space

	ovnEips map[string]*kubeovn.OvnEip
	at      index[netip.Addr] // address → OvnEips
	rules   map[string]*kubeovn.OvnDnatRule
	rulesOf index[string] // OvnEip → OvnDnatRules
	// refer has the EIps, as namespace/name, that may have an OvnEip.
	refer map[string]map[types.NamespacedName]struct{}
	made  index[types.NamespacedName] // EIp, see ownerOf → OvnEips

	network
}

// space is one namespace.
type space struct {
	annotations map[string]string
	services    map[string]types.UID // of any type and class
	uids        map[types.UID]string
	published   map[types.UID][]netip.Addr // by those that are not claims
	claims      map[string]*Claim          // by the name of the Service
	eips        map[string]*api.EIp
	fips        map[string]*api.FIp

	eipsBy   index[ref]
	claimsBy index[ref]
	// claimsAt are claims that also need a port.
	claimsAt index[portRef]
	fipsBy   index[string] // EIp → FIps

	place *located // nil: not looked for
}

type located struct {
	kubedc.Place
	ok      bool
	problem string
}

// ref is what EIps and claims have in common if one may concern the other.
type ref struct {
	kind byte
	text string
}

type portRef struct {
	ref
	port lb.Port
}

const (
	byName    = 'n' // the EIp's
	byService = 's' // UID of the Service for which the EIp was made
	byAddress = 'a'
	byOvnEip  = 'o' // only of EIps: what may have its address
	byUID     = 'u' // the EIp's
	byOwner   = 'w' // only of EIps: name or UID of a Service that its status lists
)

// index has names by a key.
type index[K comparable] map[K]map[string]struct{}

func (i index[K]) add(key K, name string) {
	if i[key] == nil {
		i[key] = map[string]struct{}{}
	}
	i[key][name] = struct{}{}
}

func (i index[K]) remove(key K, name string) {
	if delete(i[key], name); len(i[key]) == 0 {
		delete(i, key)
	}
}

// NewBook returns an empty one. serves says that EIps are served here: see State.
func NewBook(serves bool) *Book {
	return &Book{Patience: Patience, serves: serves, spaces: map[string]*space{}, ovnEips: map[string]*kubeovn.OvnEip{}, at: index[netip.Addr]{},
		rules: map[string]*kubeovn.OvnDnatRule{}, rulesOf: index[string]{},
		refer: map[string]map[types.NamespacedName]struct{}{}, made: index[types.NamespacedName]{}, network: newNetwork()}
}

func (b *Book) space(name string) *space {
	s := b.spaces[name]
	if s == nil {
		s = &space{services: map[string]types.UID{}, uids: map[types.UID]string{}, published: map[types.UID][]netip.Addr{}, claims: map[string]*Claim{}, eips: map[string]*api.EIp{}, fips: map[string]*api.FIp{},
			eipsBy: index[ref]{}, claimsBy: index[ref]{}, claimsAt: index[portRef]{}, fipsBy: index[string]{}}
		b.spaces[name] = s
	}
	return s
}

// Service has changed; "" as its UID says that it is gone. c is what it asks for, nil if
// it is not of the backend's classes or being deleted; published are the addresses of such
// a one.
func (b *Book) Service(key types.NamespacedName, uid types.UID, c *Claim, published ...netip.Addr) {
	s := b.space(key.Namespace)
	delete(s.uids, s.services[key.Name])
	delete(s.published, s.services[key.Name])
	delete(s.services, key.Name)
	if uid != "" {
		s.services[key.Name], s.uids[uid] = uid, key.Name
		if c == nil && len(published) > 0 {
			s.published[uid] = published
		}
	}
	if old := s.claims[key.Name]; old != nil {
		s.indexClaim(old, index[ref].remove, index[portRef].remove)
		delete(s.claims, key.Name)
	}
	if uid != "" && c != nil {
		s.claims[key.Name] = c
		s.indexClaim(c, index[ref].add, index[portRef].add)
	}
}

func (s *space) indexClaim(c *Claim, do func(index[ref], ref, string), doAt func(index[portRef], portRef, string)) {
	name := c.Service.Key.Name
	for _, r := range claimRefs(c) {
		do(s.claimsBy, r, name)
		for _, p := range c.Service.PortList() {
			doAt(s.claimsAt, portRef{r, p}, name)
		}
	}
}

// claimRefs are the EIps that a claim may be about.
func claimRefs(c *Claim) []ref {
	name := c.Wish.EIp
	if name == "" {
		name = AutoName(c.Service.Key, c.Service.UID, c.Wish)
	}
	out := []ref{{byName, name}, {byService, string(c.Service.UID)}}
	for _, list := range [][]netip.Addr{c.Service.Published(), c.Wish.Addresses} {
		for _, a := range list {
			out = append(out, ref{byAddress, a.String()})
		}
	}
	return out
}

// EIp has changed; nil is that it is gone.
func (b *Book) EIp(key types.NamespacedName, e *api.EIp) {
	s := b.space(key.Namespace)
	if old := s.eips[key.Name]; old != nil {
		for _, r := range eipRefs(old) {
			s.eipsBy.remove(r, key.Name)
			if r.kind == byOvnEip {
				if delete(b.refer[r.text], key); len(b.refer[r.text]) == 0 {
					delete(b.refer, r.text)
				}
			}
		}
		delete(s.eips, key.Name)
	}
	if e != nil {
		s.eips[key.Name] = e
		for _, r := range eipRefs(e) {
			s.eipsBy.add(r, key.Name)
			if r.kind == byOvnEip {
				if b.refer[r.text] == nil {
					b.refer[r.text] = map[types.NamespacedName]struct{}{}
				}
				b.refer[r.text][key] = struct{}{}
			}
		}
	}
	if key.Name == kubedc.DefaultGateway {
		s.place = nil
	}
}

func eipRefs(e *api.EIp) []ref {
	out := []ref{{byName, e.Name}, {byUID, string(e.UID)}, {byOvnEip, OvnEipName(e)}}
	if uid := e.Labels[LabelService]; uid != "" {
		out = append(out, ref{byService, uid})
	}
	if a, err := lb.ParseAddr(e.Status.IPAddress); err == nil {
		out = append(out, ref{byAddress, a.String()})
	}
	for _, name := range []string{e.Spec.ChildRef, e.Status.OvnEIpRef} {
		if name != "" {
			out = append(out, ref{byOvnEip, name})
		}
	}
	for _, o := range e.Status.Owners {
		if strings.EqualFold(o.Type, ownerService) {
			out = append(out, ref{byOwner, strings.TrimPrefix(o.OwnerRef, e.Namespace+"/")})
		}
	}
	return out
}

// FIp has changed; nil is that it is gone.
func (b *Book) FIp(key types.NamespacedName, f *api.FIp) {
	s := b.space(key.Namespace)
	if old := s.fips[key.Name]; old != nil {
		s.fipsBy.remove(old.Spec.EIp, key.Name)
		s.fipsBy.remove(old.Status.EIp, key.Name)
		delete(s.fips, key.Name)
	}
	if f != nil {
		s.fips[key.Name] = f
		s.fipsBy.add(f.Spec.EIp, key.Name)
		s.fipsBy.add(f.Status.EIp, key.Name)
	}
}

// OvnEip has changed; nil is that it is gone.
func (b *Book) OvnEip(name string, o *kubeovn.OvnEip) {
	old := b.ovnEips[name]
	if old != nil {
		for _, a := range addressesOf(old) {
			b.at.remove(a, name)
		}
		if owner, ok := ownerOf(old); ok {
			b.made.remove(owner, name)
		}
		delete(b.ovnEips, name)
	}
	if o != nil {
		b.ovnEips[name] = o
		for _, a := range addressesOf(o) {
			b.at.add(a, name)
		}
		if owner, ok := ownerOf(o); ok {
			b.made.add(owner, name)
		}
	}
	if !sameSubnet(old, o) {
		b.gatewayChanged(old, o)
	}
}

func sameSubnet(a, b *kubeovn.OvnEip) bool {
	return a != nil && b != nil && a.Spec.ExternalSubnet == b.Spec.ExternalSubnet
}

// Namespace has these annotations.
func (b *Book) Namespace(name string, annotations map[string]string) {
	s := b.space(name)
	s.annotations, s.place = annotations, nil
	if len(annotations)+len(s.services)+len(s.eips)+len(s.fips) == 0 {
		delete(b.spaces, name)
	}
}

// UID of a Service; "" if there is none.
func (b *Book) UID(key types.NamespacedName) types.UID {
	return b.space(key.Namespace).services[key.Name]
}

// Claim of a Service; nil if it has none.
func (b *Book) Claim(key types.NamespacedName) *Claim { return b.space(key.Namespace).claims[key.Name] }

// GetEIp returns an EIp; nil if there is none.
func (b *Book) GetEIp(key types.NamespacedName) *api.EIp {
	return b.space(key.Namespace).eips[key.Name]
}

// GetOvnEip returns an OvnEip; nil if there is none.
func (b *Book) GetOvnEip(name string) *kubeovn.OvnEip { return b.ovnEips[name] }
