package cloudsigma

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/cloudsigma"
	compat "fairlead.io/internal/compat/cloudsigma"
)

// trust is how long what was read counts, with our own changes since. All looks
// within this time share one list of each kind. A write that fails ends it at once.
const trust = time.Minute

// account is what there is in the cloud.
type account struct {
	ips     map[netip.Addr]cloudsigma.IP
	servers map[string]cloudsigma.Server // by UUID
	tags    map[netip.Addr][]string      // names, sorted, of each address
	strange []string                     // what is listed as an address and is none

	published map[netip.Addr]bool // by Services of this cluster that are looked at
	nodes     map[string]bool     // UUIDs of servers that are nodes of this cluster; nil: not known
}

// read returns what there is, as it was at that time or later.
func (b *Backend) read(ctx context.Context, since time.Time) (*account, error) {
	ips, err := b.client.IPs.Since(ctx, since, time.Time{})
	if err != nil {
		return nil, err
	}
	tags, err := b.client.Tags.Since(ctx, since, time.Time{})
	if err != nil {
		return nil, err
	}
	servers, err := b.client.Servers.Since(ctx, since, time.Time{})
	if err != nil {
		return nil, err
	}
	a := &account{ips: make(map[netip.Addr]cloudsigma.IP, len(ips)), servers: make(map[string]cloudsigma.Server, len(servers))}
	for _, ip := range ips {
		if addr, ok := ip.Addr(); ok {
			a.ips[addr] = ip
		} else {
			a.strange = append(a.strange, ip.UUID)
		}
	}
	for _, s := range servers {
		a.servers[s.UUID] = s
	}
	a.setTags(tags)
	return a, nil
}

// forget what is known: a write did not go as it should.
func (b *Backend) forget() {
	b.client.IPs.Forget()
	b.client.Tags.Forget()
	b.client.Servers.Forget()
}

// setTags takes over what tags there are.
func (a *account) setTags(tags []cloudsigma.Tag) {
	a.tags = map[netip.Addr][]string{}
	for _, t := range tags {
		for _, r := range t.Resources {
			addr, err := netip.ParseAddr(r)
			if err != nil || addr.Zone() != "" {
				continue // a server, a drive
			}
			addr = addr.Unmap()
			if !slices.Contains(a.tags[addr], t.Name) {
				a.tags[addr] = append(a.tags[addr], t.Name)
			}
		}
	}
	for _, names := range a.tags {
		slices.Sort(names)
	}
}

func (a *account) has(addr netip.Addr, tag string) bool { return slices.Contains(a.tags[addr], tag) }

// others are the clusters besides one that have tagged an address, sorted.
func (a *account) others(addr netip.Addr, cluster string) (out []string) {
	for _, tag := range a.tags[addr] {
		if c, ok := compat.ClusterOf(tag); ok && c != cluster {
			out = append(out, c)
		}
	}
	return out
}

// served says whether an address has the tag of a Service, of any cluster.
func (a *account) served(addr netip.Addr) bool {
	return slices.ContainsFunc(a.tags[addr], compat.IsServiceTag)
}

// attached are the servers that have a card for an address, besides their own,
// sorted by UUID.
func (a *account) attached(addr netip.Addr) (out []string) {
	for id, s := range a.servers {
		if a.extra(&s, addr) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// extra says whether a server has a card for an address besides its own.
func (a *account) extra(s *cloudsigma.Server, addr netip.Addr) bool {
	if own := a.ownCard(s); own != nil && own.Static(addr) {
		return false
	}
	without := *s
	without.Detach(addr)
	return len(without.NICs) < len(s.NICs)
}

// ownCard is the public card that a server needs for itself: the first one. Nodes may
// have none, but only cards of private networks: then the first public one is that of a
// Service's address.
func (a *account) ownCard(s *cloudsigma.Server) *cloudsigma.NIC {
	own := s.PublicNIC()
	if own == nil || own == &s.NICs[0] {
		return own
	}
	for _, conf := range []*cloudsigma.IPConf{own.V4, own.V6} {
		if conf != nil && conf.Conf == cloudsigma.Static && (a.published[conf.Addr] || slices.ContainsFunc(a.tags[conf.Addr], isClusterTag)) {
			return nil
		}
	}
	return own
}

func isClusterTag(tag string) bool { _, is := compat.ClusterOf(tag); return is }

// owner is the server whose own address this is, nil if it is none's.
func (a *account) owner(addr netip.Addr) *cloudsigma.Server {
	for _, s := range a.servers {
		own := a.ownCard(&s)
		if own == nil {
			continue
		}
		if slices.Contains(own.Runtime, addr) || own.V4 != nil && own.V4.Addr == addr || own.V6 != nil && own.V6.Addr == addr {
			return &s
		}
	}
	return nil
}

// ours are the servers in a list that are nodes of this cluster, as far as that is known.
func (a *account) ours(servers []string) []string {
	return slices.DeleteFunc(servers, func(id string) bool { return a.nodes != nil && !a.nodes[id] })
}

// stranger is a server that has a card for an address and is no node of this cluster,
// or "".
func (a *account) stranger(addr netip.Addr) string {
	for _, id := range a.attached(addr) {
		if a.nodes != nil && !a.nodes[id] {
			return id
		}
	}
	return ""
}

// tagged are the addresses that have both tags, sorted.
func (a *account) tagged(one, other string) (out []netip.Addr) {
	for addr := range a.tags {
		if a.has(addr, one) && a.has(addr, other) {
			out = append(out, addr)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}
