package agent

import (
	"crypto/sha256"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/dhcp"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
)

// leasing is what the directory knows of addresses that DHCP servers give. Nobody
// knows such an address before a node has it, so nodes claim a token in its
// place, which is made from who wants it and which every node makes alike. Whose
// the token is has the lease, and announces the address.
type leasing struct {
	kubevip *kubevip.Config
	// cluster tells this cluster from others on the LAN, in which Services share by
	// the same names.
	cluster types.UID
	// preset is the interface for Services for which none is named.
	preset string
	// told are the leases that agents have told of.
	told map[v1alpha1.LeaseOf]v1alpha1.Lease
	// groups are the Services that may share a lease; members have those that do,
	// by token; both the oldest first.
	groups  map[group][]*offer
	members map[netip.Addr][]*offer
	leased  map[netip.Addr]netip.Addr // what this node has leased, by token
}

func newLeasing() leasing {
	return leasing{kubevip: kubevip.Parse(nil), told: map[v1alpha1.LeaseOf]v1alpha1.Lease{},
		groups: map[group][]*offer{}, members: map[netip.Addr][]*offer{}, leased: map[netip.Addr]netip.Addr{}}
}

// group is who may share leases of a family.
type group struct {
	family lb.Family
	name   string
}

// leaseWish is what one Service wants from DHCP servers.
type leaseWish struct {
	wants  [len(lb.Families)]bool
	tokens [len(lb.Families)]netip.Addr // valid where it wants
	// had: what the Service publishes may have been leased, by us or by kube-vip; it
	// is not an address of a pool, from the time before it wanted a lease.
	had [len(lb.Families)]bool
	// iface is the interface that is named for the Service, or "".
	iface string
	wish  kubevip.LeaseWish
}

// leases says whether any address of the Service is for a DHCP server to give.
func (w *leaseWish) leases() bool { return w.wants != [len(lb.Families)]bool{} }

func (w *leaseWish) tokensOf() []netip.Addr {
	return slices.DeleteFunc(slices.Clone(w.tokens[:]), func(t netip.Addr) bool { return !t.IsValid() })
}

// advertised is how addresses of a Service are announced of which no pool says
// more.
func (w *leaseWish) advertised() []lb.Advertisement {
	if w.iface == "" {
		return []lb.Advertisement{{}}
	}
	return []lb.Advertisement{{Interfaces: []string{w.iface}}}
}

// amended is how an address of the Service is announced that is of pool p.
func (w *leaseWish) amended(p *lb.Pool) []lb.Advertisement {
	if p.Key.Dialect == lb.KubeVIP {
		return w.advertised()
	}
	return p.Advertisements
}

// hashKey is the same for all addresses of a Service, whatever it leases.
func (o *offer) hashKey() netip.Addr {
	if t := o.tokensOf(); len(t) > 0 {
		return t[0]
	}
	return o.has[0]
}

// tokens are in the block whose packets are discarded everywhere, RFC 6666.
var tokens = netip.MustParsePrefix("100::/64")

func isToken(a netip.Addr) bool { return tokens.Contains(a) }

// tokenOf returns the token of a name: the claim of a lease travels with it.
func tokenOf(f lb.Family, name string) netip.Addr {
	sum := sha256.Sum256([]byte("fairlead.io/lease " + f.String() + " " + name))
	out := tokens.Addr().As16()
	copy(out[8:], sum[:8])
	return netip.AddrFrom16(out)
}

// list notes what o, which is s, wants from DHCP servers, and returns the tokens
// and addresses that concerns.
func (d *directory) list(o *offer, s *corev1.Service) []netip.Addr {
	if !slices.Contains(o.request.Dialects, lb.KubeVIP) {
		return nil
	}
	if o.iface = strings.TrimSpace(s.Annotations[kubevip.AnnotationInterface]); o.iface == "" {
		if o.iface = d.kubevip.Interface(s.Namespace); o.iface == "" {
			o.iface = d.preset
		}
	}
	o.wants = o.wantsLease()
	if !o.leases() {
		return nil
	}
	o.wish, _ = kubevip.LeaseWishOf(s, o.wants) // the controller tells what is wrong with it
	var affected []netip.Addr
	for _, f := range lb.Families {
		if !o.wants[f] {
			continue
		}
		o.had[f] = mayHaveLeased(s, f)
		g, shares := o.group(f)
		if !shares {
			o.tokens[f] = tokenOf(f, o.self())
			d.members[o.tokens[f]] = byAge(d.members[o.tokens[f]], o)
			affected = append(affected, o.tokens[f])
			continue
		}
		d.groups[g] = byAge(d.groups[g], o)
		affected = append(affected, d.regroup(g)...)
	}
	return affected
}

// unlist forgets what list noted.
func (d *directory) unlist(o *offer) (affected []netip.Addr) {
	for _, f := range lb.Families {
		if !o.wants[f] {
			continue
		}
		affected = append(affected, o.tokens[f])
		without(d.members, o.tokens[f], o)
		if g, shares := o.group(f); shares {
			without(d.groups, g, o)
			affected = append(affected, d.regroup(g)...)
		}
	}
	return affected
}

// self names the Service; another one of the same name is another one.
func (o *offer) self() string { return string(o.request.UID) }

// shares says whether others may come to live on the Service's address of that
// family.
func (o *offer) shares(f lb.Family) bool {
	r := &o.request
	return r.ShareKey != "" && !r.Alone && (r.ShareOnly == nil || *r.ShareOnly == f)
}

// group returns the Services with which o may share a lease, if any.
func (o *offer) group(f lb.Family) (group, bool) {
	return group{f, o.request.ShareKey + "\n" + o.request.ShareAmong + "\n" + o.request.Backends}, o.shares(f)
}

// regroup says who of a group shares the lease: the older ones first, each if
// its ports are free; who cannot has a lease alone.
func (d *directory) regroup(g group) (affected []netip.Addr) {
	together, taken := tokenOf(g.family, g.name), sets.New[lb.Port]()
	for _, o := range d.groups[g] {
		token := together
		if taken.HasAny(o.request.Ports...) {
			token = tokenOf(g.family, o.self())
		} else {
			taken.Insert(o.request.Ports...)
		}
		old := o.tokens[g.family]
		if old == token {
			continue
		}
		if old.IsValid() {
			without(d.members, old, o)
			affected = append(affected, old)
		}
		o.tokens[g.family] = token
		d.members[token] = byAge(d.members[token], o)
		affected = append(affected, token)
		if d.services[o.request.Service] == o {
			affected = append(affected, d.rehouse(o)...)
		}
	}
	return append(affected, together)
}

// wantsLease says of which families the address of o is for a DHCP server to
// give: it asks for that, or the controller has written so.
func (o *offer) wantsLease() (wants [len(lb.Families)]bool) {
	for _, f := range o.request.Families {
		wants[f] = o.request.DHCP[f] && !slices.ContainsFunc(o.request.Addresses, func(a netip.Addr) bool { return lb.FamilyOf(a) == f })
	}
	return wants
}

// mayHaveLeased says whether the address of s of family f that is published may be a
// lease: the controller has written so, or has not written it.
func mayHaveLeased(s *corev1.Service, f lb.Family) bool {
	if slices.Contains(strings.Split(s.Annotations[native.AnnotationDHCP], ","), f.String()) {
		return true
	}
	return !slices.ContainsFunc(s.Status.Conditions, func(c metav1.Condition) bool { return c.Type == native.ConditionReady })
}

func leaseOf(service types.NamespacedName, f lb.Family) v1alpha1.LeaseOf {
	return v1alpha1.LeaseOf{Service: service.String(), Family: f.String()}
}

// addressesOf returns what o publishes and what this node has leased for it.
func (d *directory) addressesOf(o *offer) []netip.Addr {
	out := slices.Clone(o.published)
	for _, t := range o.tokensOf() {
		if a, ok := d.leased[t]; ok && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// rehouse has o live where it is to live now, and returns where that is and was.
func (d *directory) rehouse(o *offer) []netip.Addr {
	was := o.has
	d.leave(o)
	o.has = d.addressesOf(o)
	d.enter(o)
	return slices.Concat(was, o.has)
}

// setLease notes what this node has leased for a token, or that it has nothing,
// and returns the addresses that concerns.
func (d *directory) setLease(token, addr netip.Addr) (affected []netip.Addr) {
	if old, ok := d.leased[token]; ok && old == addr {
		return nil
	}
	delete(d.leased, token)
	if addr.IsValid() {
		d.leased[token] = addr
	}
	for _, o := range d.members[token] {
		if d.services[o.request.Service] == o {
			affected = append(affected, d.rehouse(o)...)
		}
	}
	return affected
}

// tokenFor returns the token of the lease that a is, or would be.
func (d *directory) tokenFor(a netip.Addr) (netip.Addr, bool) {
	for _, o := range d.tenants(a) {
		if t := o.tokens[lb.FamilyOf(a)]; t.IsValid() {
			return t, true
		}
	}
	return netip.Addr{}, false
}

// leaseCandidate returns what the election needs to know about a token. A lease
// is had also while nothing serves.
func (d *directory) leaseCandidate(token netip.Addr) elect.Address {
	members := d.members[token]
	f := familyOf(members[0], token)
	out := elect.Address{Addr: token, Family: &f, HashKey: members[0].hashKey()}
	d.fill(&out, members)
	out.Advertisements = members[0].advertised()
	onNodes := out.ServingNodes.Len()
	if out.ServingNodes.Has("") { // outside of the cluster
		onNodes--
	}
	out.AnyServing, out.NeedsLocal = true, out.NeedsLocal && onNodes > 0
	return out
}

// familyOf returns the family of which o wants a lease by that token.
func familyOf(o *offer, token netip.Addr) lb.Family {
	if o.tokens[lb.IPv6] == token {
		return lb.IPv6
	}
	return lb.IPv4
}

// identity is who the members of a token are to a DHCP server: the same on every
// node.
func (d *directory) identity(token netip.Addr) dhcp.Identity {
	members := d.members[token]
	oldest := members[0]
	f := familyOf(oldest, token)
	name := oldest.self()
	if g, shares := oldest.group(f); shares && token == tokenOf(f, g.name) {
		name = string(d.cluster) + " " + g.name
	}
	id := dhcp.IdentityOf(name)
	if oldest.wish.MAC != nil {
		id.MAC = oldest.wish.MAC
	}
	id.Hostname = oldest.wish.Hostname
	if a := oldest.wish.Requested; a.IsValid() && lb.FamilyOf(a) == f {
		id.Requested = a
	}
	return id
}

// lastLease returns the lease that a node had last for the members of a token, if
// any; of one that was lost there is no address.
func (d *directory) lastLease(token netip.Addr) v1alpha1.Lease {
	var last v1alpha1.Lease
	for _, o := range d.members[token] {
		f := familyOf(o, token)
		l, ok := d.told[leaseOf(o.request.Service, f)]
		if !ok {
			if i := slices.IndexFunc(o.published, func(a netip.Addr) bool { return lb.FamilyOf(a) == f }); i >= 0 && o.had[f] && last.Service == "" {
				last.Address = o.published[i].String()
			}
			continue
		}
		if last.Service == "" || last.Since.Before(&l.Since) {
			last = l
		}
	}
	return last
}
