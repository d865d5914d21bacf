package cloudsigma

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/cloudsigma"
	compat "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

const (
	// patience is how long a cluster waits for another one, which has claimed an
	// address at the same time, to let go.
	patience = 30 * time.Second
	// contestPause is when it looks again.
	contestPause = 3 * time.Second
	// handOverPause is when to look again for an address that another Service of this
	// cluster is about to leave.
	handOverPause = time.Second
)

// observation is one look.
type observation struct {
	account *account
	nodes   []candidate
	desired Desired

	// blocked is why not all addresses can be had; passing says that this changes by
	// itself, and again when to look.
	blocked *lb.Reason
	passing bool
	again   time.Duration
	yields  bool
	tell    []lb.Reason
}

func (o *observation) block(r lb.Reason) {
	if o.blocked != nil {
		r = o.blocked.And(r)
	}
	o.blocked = &r
}

// soon has the Service looked at again after so long, or earlier.
func (o *observation) soon(after time.Duration) {
	if o.again == 0 || after < o.again {
		o.again = after
	}
}

// observe decides what a Service is to have.
func (b *Backend) observe(w *lb.Want, a *account) *observation {
	s := &w.Service
	published := s.Published()
	o := &observation{account: a, nodes: candidates(w.Nodes, a, localTo(s, w.Endpoints), b.pods != nil)}
	o.desired = Desired{Cluster: compat.ClusterTag(b.cluster), Service: compat.ServiceTag(s.Key), Keep: map[netip.Addr][]string{}, Published: map[netip.Addr]bool{}}
	for _, addr := range published {
		o.desired.Published[addr] = true
	}
	a.published, a.nodes = o.desired.Published, map[string]bool{}
	for i := range o.nodes {
		if s := o.nodes[i].server; s != nil {
			a.nodes[s.UUID] = true
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o.desired.Attached = maps.Clone(b.attached)
	b.noteAgents(w.Nodes)
	if !w.Gone {
		if _, unknown := compat.Pool(s); unknown != "" {
			o.tell = append(o.tell, Reasons.With(UnknownAddressPool, unknown))
		}
		for _, addr := range w.Verdict.Addresses {
			b.wanted(o, w, addr)
		}
	}
	for _, addr := range b.concerned(w, a) {
		if !w.Gone && (slices.Contains(w.Verdict.Addresses, addr) || o.desired.Published[addr]) {
			continue // what is published is taken away once it is not
		}
		b.leftover(o, w, addr)
	}
	return o
}

// wanted decides about an address that a Service wants.
func (b *Backend) wanted(o *observation, w *lb.Want, addr netip.Addr) {
	if !b.available(o, w, addr) {
		return
	}
	for key := range b.holders(addr, w) {
		o.desired.Keep[addr] = append(o.desired.Keep[addr], compat.ServiceTag(key))
	}
	settles := b.settles(addr)
	p := place(addr, o.account, o.nodes, b.load(o.account, o.nodes, addr), before{b.chosen[addr], settles > 0}, b.pods != nil)
	if settles > 0 && p.Server == "" {
		o.soon(settles)
	}
	if c, left := b.awaited(o, addr); c != nil {
		o.soon(left)
		if p = (placement{Address: addr}).on(c); len(o.account.attached(addr)) == 0 && c.carries(addr, o.account) {
			p.Server = ""
		}
	}
	if p.Why != "" {
		o.block(Reasons.With(NoCarrier, addr, p.Why))
	} else if !w.DryRun {
		b.chosen[addr] = p.Node
	}
	o.desired.Placed = append(o.desired.Placed, p)
	if ip := o.account.ips[addr]; !ip.Subscribed() {
		o.tell = append(o.tell, Reasons.With(DynamicAddress, addr))
	}
}

// available says whether a Service may have an address. Nobody can have it whom the
// cloud shows to be somebody else's; what is published stays.
func (b *Backend) available(o *observation, w *lb.Want, addr netip.Addr) bool {
	a, m := o.account, b.memos[w.Service.UID]
	_, owned := a.ips[addr]
	others := a.others(addr, b.cluster)
	mine := a.has(addr, o.desired.Cluster)
	if o.desired.Published[addr] {
		switch {
		case !owned:
			o.block(Reasons.With(AddressMissing, addr))
			return false
		case a.owner(addr) != nil:
			o.block(Reasons.With(AddressTaken, addr, ownAddress(a.owner(addr))))
			return false
		case len(others) > 0:
			o.tell = append(o.tell, Reasons.With(AddressTaggedTwice, prose.And(quoted(others)), addr))
		}
		return true
	}
	if mine && len(others) > 0 {
		// Both wrote their tags at the same time. The lower name keeps the address; but
		// nothing is published while the other is there, which may have been first.
		if m != nil && m.contested.IsZero() {
			m.contested = time.Now()
		}
		if slices.Min(others) > b.cluster && m != nil && time.Since(m.contested) < patience {
			o.block(Reasons.With(AddressTaken, addr, "cluster "+prose.And(quoted(others))+" has it, too"))
			o.passing = true
			o.soon(contestPause)
			return false
		}
		o.desired.Yield = append(o.desired.Yield, addr)
	}
	if mine && len(others) == 0 && a.stranger(addr) != "" {
		o.desired.Yield = append(o.desired.Yield, addr) // somebody attached it meanwhile
	}
	if why := taken(a, b.cluster, addr); why != "" {
		o.block(Reasons.With(AddressTaken, addr, why))
		o.yields = true
		return false
	}
	if m != nil {
		m.contested = time.Time{}
	}
	if leaving := b.leaving(w, addr); leaving != "" {
		o.block(Reasons.With(AddressTaken, addr, "Service "+leaving+" is about to leave it"))
		o.passing = true
		o.soon(handOverPause)
		return false
	}
	return true
}

// leaving is the Service that publishes an address and does not want it any more, or
// "".
func (b *Backend) leaving(w *lb.Want, addr netip.Addr) string {
	for i := range w.Peers {
		p := &w.Peers[i]
		if p.UID == w.Service.UID || !slices.Contains(p.Published(), addr) {
			continue
		}
		if m := b.memos[p.UID]; m != nil && !slices.Contains(m.wants, addr) {
			return p.Key.String()
		}
	}
	return ""
}

// holders are the other Services that want an address, or publish it and were not
// looked at yet.
func (b *Backend) holders(addr netip.Addr, w *lb.Want) map[types.NamespacedName]bool {
	out := map[types.NamespacedName]bool{}
	for uid, m := range b.memos {
		if uid != w.Service.UID && slices.Contains(m.wants, addr) {
			out[m.key] = true
		}
	}
	for i := range w.Peers {
		if p := &w.Peers[i]; p.UID != w.Service.UID && b.memos[p.UID] == nil && slices.Contains(p.Published(), addr) {
			out[p.Key] = true
		}
	}
	return out
}

// leftover decides about an address that a Service had or claimed, and does not want.
func (b *Backend) leftover(o *observation, w *lb.Want, addr netip.Addr) {
	a, d := o.account, &o.desired
	if !a.has(addr, d.Cluster) && !d.Published[addr] {
		return // not ours
	}
	holders := b.holders(addr, w)
	if b.unclaimed(w, a, addr) {
		// Somebody ended while it claimed the address, or let it go.
		// Neither leaves a card with the tag of the cluster alone: somebody else did.
		if len(holders) == 0 && b.knowsAll(w) && (len(a.attached(addr)) == 0 || a.has(addr, compat.ManagedTag)) {
			d.Free = append(d.Free, addr)
		}
		return
	}
	alike := slices.ContainsFunc(slices.Collect(maps.Keys(holders)), func(k types.NamespacedName) bool { return compat.ServiceTag(k) == d.Service })
	used := false
	for i := range w.Peers {
		p := &w.Peers[i]
		if p.UID == w.Service.UID {
			continue
		}
		// What it publishes stays until it does not, although it wants another. It was not
		// looked at yet: the tag may say what it has.
		uses := !p.Deleting && slices.Contains(p.Published(), addr)
		used = used || uses
		alike = alike || compat.ServiceTag(p.Key) == d.Service && (uses || b.memos[p.UID] == nil)
	}
	switch {
	case alike:
	case len(holders) > 0 || used:
		d.Leave = append(d.Leave, addr)
	default:
		d.Free = append(d.Free, addr)
	}
}

// unclaimed says whether an address has the tag of this cluster, but of no Service,
// and has nothing to do with the one of w.
func (b *Backend) unclaimed(w *lb.Want, a *account, addr netip.Addr) bool {
	return !a.served(addr) && !slices.Contains(w.Verdict.Addresses, addr) && !slices.Contains(w.Service.Published(), addr)
}

// knowsAll says whether every Service was looked at: then it is known what all want.
func (b *Backend) knowsAll(w *lb.Want) bool {
	return !slices.ContainsFunc(w.Peers, func(p lb.Service) bool { return b.memos[p.UID] == nil })
}

// load is how many other addresses each node carries, or is about to.
func (b *Backend) load(a *account, nodes []candidate, but netip.Addr) map[string]int {
	on := map[netip.Addr]string{}
	for addr, node := range b.chosen {
		on[addr] = node
	}
	for i := range nodes {
		s := nodes[i].server
		if s == nil {
			continue
		}
		own := a.ownCard(s)
		for j := range s.NICs {
			for _, conf := range []*cloudsigma.IPConf{s.NICs[j].V4, s.NICs[j].V6} {
				if conf != nil && conf.Addr.IsValid() && &s.NICs[j] != own {
					on[conf.Addr] = nodes[i].node.Name
				}
			}
		}
	}
	delete(on, but)
	out := map[string]int{}
	for _, node := range on {
		out[node]++
	}
	return out
}
