package cloudsigma

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/cloud"
	compat "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/lb"
)

// Pools are the addresses of the account that Services may have: subscribed ones in
// the pool static, others that no server has in the pool dynamic, which is only used
// on request.
func (b *Backend) Pools(ctx context.Context, services []lb.Service) ([]lb.Pool, error) {
	// What a resync of all Services has just read is new enough.
	a, err := b.read(ctx, time.Now().Add(-cloud.MissAge))
	if err != nil {
		return nil, err
	}
	b.warn(a.strange)
	return pools(a, b.cluster, services), nil
}

// warn of what is listed as an address and is none, once of each.
func (b *Backend) warn(strange []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range strange {
		if !b.warned[text] {
			b.warned[text] = true
			b.log.Warn("CloudSigma lists an IP that is no address; passing over it", "ip", text)
		}
	}
}

// pools sorts the addresses of an account. One that a Service of this cluster
// publishes is its; any other must be free, or have this cluster's tag alone.
func pools(a *account, cluster string, services []lb.Service) []lb.Pool {
	published := map[netip.Addr]bool{}
	for i := range services {
		for _, addr := range services[i].Published() {
			published[addr] = true
		}
	}
	a.published = published
	var static, dynamic netipx.IPSetBuilder
	for addr, ip := range a.ips {
		switch {
		case lb.Unusable(netipx.IPRangeFrom(addr, addr)) != "":
		case !published[addr] && taken(a, cluster, addr) != "" || a.owner(addr) != nil:
		case ip.Subscribed():
			static.Add(addr)
		default:
			dynamic.Add(addr)
		}
	}
	return []lb.Pool{pool(compat.Static, &static, false), pool(compat.Dynamic, &dynamic, true)}
}

func pool(name string, addresses *netipx.IPSetBuilder, onRequest bool) lb.Pool {
	p := lb.Pool{Key: lb.PoolKey{Dialect: compat.Format, Name: name}, ManualOnly: onRequest}
	if set, err := addresses.IPSet(); err == nil {
		p.Spans = set.Ranges()
	}
	return p
}

// Import is what Services have been given by their tags, although their status does
// not say so: a controller ended in between.
func (b *Backend) Import(ctx context.Context, services []lb.Service) (map[types.UID]lb.Held, error) {
	a, err := b.read(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	published := map[netip.Addr]bool{}
	for i := range services {
		for _, addr := range services[i].Published() {
			published[addr] = true
		}
	}
	out := map[types.UID]lb.Held{}
	for i := range services {
		s := &services[i]
		if len(s.Ingress) > 0 {
			continue
		}
		has := slices.DeleteFunc(a.tagged(compat.ClusterTag(b.cluster), compat.ServiceTag(s.Key)), func(addr netip.Addr) bool { return published[addr] })
		if len(has) > 0 {
			out[s.UID] = lb.Held{Addresses: has, Evidence: lb.Reported}
			b.mu.Lock()
			for _, addr := range has {
				b.attached[addr] = true
			}
			b.mu.Unlock()
			b.log.Info("Recovered addresses from tags", "address", list(has), "service", s.Key.String())
		}
	}
	return out, nil
}
