package ipam

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fairlead.io/internal/lb"
)

// awaitNamed lets s wait for what can give it address x: a change on the
// address, or of its namespace's share of a pool. Whatever else stands in the
// way is configuration, after which everybody is looked at again.
func (a *Allocator) awaitNamed(s *service, x netip.Addr) {
	a.await(s, queueIn(a.waitAddress, x))
	for _, p := range a.cover.pools(x) {
		if !a.within(p, s, x) {
			a.await(s, p.quotaQueue(s.req.Service.Namespace))
		}
	}
}

// awaitAny lets s wait for what can give it any address of family f, and says
// why there is none.
func (a *Allocator) awaitAny(s *service, f lb.Family) lb.Reason {
	r := &s.req
	for _, x := range a.reservedFor[r.Service] {
		if lb.FamilyOf(x) == f {
			a.awaitNamed(s, x)
		}
	}
	if r.ShareKey != "" {
		a.await(s, queueIn(a.waitGroup, groupOf(r)))
	}
	pools := a.candidates(s, nil)
	var full, without []string
	var overQuota *pool
	for _, p := range pools {
		switch {
		case p.total[f] == 0:
			without = append(without, p.name)
		case !p.room(r.Service.Namespace, 1):
			a.await(s, p.quotaQueue(r.Service.Namespace))
			if overQuota == nil {
				overQuota = p
			}
		default:
			a.await(s, p.waiting[f])
			full = append(full, "pool "+p.name+" ("+p.usage(f)+")")
		}
	}
	switch {
	case overQuota != nil:
		return overQuota.overQuota(r)
	case len(full) > 0:
		return lb.PoolExhausted.With(f, list(full))
	case len(without) == 1:
		return lb.FamilyUnavailable.With(f, "pool "+without[0]+" has")
	case len(without) > 1:
		return lb.FamilyUnavailable.With(f, "pools "+list(without)+" have")
	}
	return a.noCandidate(r)
}

// noCandidate says why no pool gives addresses to the Service of r.
func (a *Allocator) noCandidate(r *lb.Request) lb.Reason {
	if r.Pool != "" {
		p := a.resolve(r)
		switch {
		case p == nil:
			return a.unknownPool(r)
		case !p.Admits(r):
			return lb.PoolNotAllowed.With("pool "+p.name, p.notFor(r), p.Key.Name)
		}
		return lb.PoolUnavailable.With("pool "+p.name, p.state())
	}
	var why []string
	for _, p := range a.pools {
		switch {
		case !slices.Contains(r.Dialects, p.Key.Dialect):
		case !p.works() || p.Disabled:
			why = append(why, p.state())
		case !p.Admits(r):
			why = append(why, p.notFor(r))
		default:
			why = append(why, "pool "+p.name+" is only given on request")
		}
	}
	if len(why) == 0 {
		return lb.NoPool.With()
	}
	return lb.NoPoolMatches.With(shorten(why, "; ", "; "))
}

// unknownPool says which pools there are instead of the one asked for.
func (a *Allocator) unknownPool(r *lb.Request) lb.Reason {
	var names []string
	for _, p := range a.pools {
		if slices.Contains(r.Dialects, p.Key.Dialect) {
			names = append(names, strconv.Quote(p.Key.Name))
		}
	}
	if len(names) == 0 {
		return lb.UnknownPool.With(r.Pool, "none")
	}
	return lb.UnknownPool.With(r.Pool, list(names))
}

// usage says how full a pool with nothing free is.
func (p *pool) usage(f lb.Family) string {
	if p.total[f] == math.MaxInt64 {
		return fmt.Sprintf("%d used", p.used[f])
	}
	s := fmt.Sprintf("%d of %d used", p.used[f], p.total[f])
	if int64(p.used[f]) < p.total[f] {
		s += ", the rest reserved or of nodes"
	}
	return s
}

func (p *pool) quotaQueue(namespace string) *queue {
	if p.quota == nil {
		p.quota = map[string]*queue{}
	}
	return queueIn(p.quota, namespace)
}

// list writes items as they are read in a sentence.
func list(items []string) string { return shorten(items, ", ", " and ") }

// shorten joins the first few items and says how many more there are.
func shorten(items []string, separator, last string) string {
	const most = 4
	switch n := len(items); {
	case n > most:
		return strings.Join(items[:most], separator) + separator + "and " + strconv.Itoa(n-most) + " more"
	case n > 1:
		return strings.Join(items[:n-1], separator) + last + items[n-1]
	}
	return strings.Join(items, "")
}

func joinAddrs(addresses []netip.Addr) string {
	var s []string
	for _, x := range addresses {
		s = append(s, x.String())
	}
	return strings.Join(s, ", ")
}

func familyList(families []lb.Family) string {
	var names []string
	for _, f := range families {
		names = append(names, f.String())
	}
	return list(names)
}

func utoa(n uint16) string { return strconv.Itoa(int(n)) }
