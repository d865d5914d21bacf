package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"fairlead.io/internal/lb"
)

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

var _ failer = (*testing.T)(nil)

// checkInvariants checks what must be true between any two operations.
func checkInvariants(t failer, a *Allocator) {
	t.Helper()
	if len(a.notes)+len(a.evicted)+len(a.touched) > 0 {
		t.Errorf("left over: notes %v, evicted %v, touched %v", a.notes, a.evicted, a.touched)
	}
	checkHoldings(t, a)
	checkFree(t, a)
	checkWaiting(t, a)
}

// checkHoldings: every address that a Service has is known, and shared only by
// those who may; nothing is held by nobody.
func checkHoldings(t failer, a *Allocator) {
	t.Helper()
	holdings := 0
	loners := 0
	for name, s := range a.services {
		if choosy(&s.req) {
			loners++
		}
		if s.gone || s.req.Service != name {
			t.Errorf("%s: wrong entry", name)
		}
		for _, f := range lb.Families {
			x := s.has[f]
			if !x.IsValid() {
				continue
			}
			holdings++
			if lb.FamilyOf(x) != f || !slices.Contains(slices.Collect(users(a.held[x], f)), s) {
				t.Errorf("%s has %s, but the address does not know", name, x)
			}
			for u := range users(a.held[x], f) {
				if c, _ := conflictOf(s, u, f); u != s && c != noConflict {
					t.Errorf("%s and %s both have %s: conflict %d", name, u.req.Service, x, c)
				}
			}
			checkOffered(t, a, s, x)
		}
		if text := s.verdict.Reason.Text; s.settled && (text == "" || strings.Contains(text, "%")) {
			t.Errorf("%s is told %q", name, text)
		}
		if s.settled {
			has, told := slices.Clone(s.has[:]), slices.Clone(s.verdict.Addresses)
			has = slices.DeleteFunc(has, func(x netip.Addr) bool { return !x.IsValid() })
			slices.SortFunc(told, netip.Addr.Compare)
			if !slices.Equal(has, told) {
				t.Errorf("%s has %v, but the verdict says %v", name, has, s.verdict.Addresses)
			}
		}
	}
	for x, head := range a.held {
		for u := range users(head, lb.FamilyOf(x)) {
			holdings--
			if a.services[u.req.Service] != u {
				t.Errorf("%s is held by %s, which is not there", x, u.req.Service)
			}
		}
	}
	if holdings != 0 {
		t.Errorf("holdings differ by %d", holdings)
	}
	if loners != a.loners {
		t.Errorf("%d are choosy, want %d", a.loners, loners)
	}
	offered, inUse := 0, 0
	for g, o := range a.shared {
		for _, f := range lb.Families {
			for _, k := range o.all[f] {
				offered++
				inGroup := func(u *service) bool { return joinable(&u.req, f) && groupOf(&u.req, f) == g }
				if !slices.ContainsFunc(slices.Collect(users(a.held[k.addr(f)], f)), inGroup) {
					t.Errorf("%s is offered to %v", k.addr(f), g)
				}
			}
			for _, u := range o.inUse {
				inUse += len(u[f])
			}
		}
	}
	for x, head := range a.held {
		counted := map[group]bool{}
		for u := range users(head, lb.FamilyOf(x)) {
			if joinable(&u.req, lb.FamilyOf(x)) {
				if g := groupOf(&u.req, lb.FamilyOf(x)); !counted[g] {
					offered--
					counted[g] = true
				}
				ports := slices.Clone(u.req.Ports)
				slices.SortFunc(ports, func(p, q lb.Port) int { return strings.Compare(fmt.Sprint(p), fmt.Sprint(q)) })
				inUse -= len(slices.Compact(ports))
			}
		}
	}
	if offered != 0 || inUse != 0 {
		t.Errorf("offered addresses differ by %d, ports in use by %d", offered, inUse)
	}
}

// checkOffered: what s has is offered to its group, if it has one, with the
// ports of s in use.
func checkOffered(t failer, a *Allocator, s *service, x netip.Addr) {
	t.Helper()
	f := lb.FamilyOf(x)
	g := groupOf(&s.req, f)
	o := a.shared[g]
	if g.key == "" && o != nil {
		t.Errorf("%s of %s: offered without a key", x, s.req.Service)
	}
	if !joinable(&s.req, f) {
		return
	}
	if o == nil || !slices.Contains(o.all[f], keyOf(x)) {
		t.Errorf("%s of %s: not offered", x, s.req.Service)
		return
	}
	for _, p := range s.req.Ports {
		if u := o.inUse[p]; u == nil || !slices.Contains(u[f], keyOf(x)) {
			t.Errorf("%s of %s: port %v is not in use", x, s.req.Service, p)
		}
	}
}

// checkFree: what is free in a pool is the pool without what is held, left, reserved
// or a node's, and the counts are right. Only for the small pools of tests.
func checkFree(t failer, a *Allocator) {
	t.Helper()
	for _, p := range a.pools {
		var used, free [len(lb.Families)]int
		var total [len(lb.Families)]int64
		perNamespace := map[string]int{}
		for _, span := range p.Spans {
			if lb.SpanSize(span).BitLen() > 12 {
				return
			}
			f := lb.FamilyOf(span.From())
			for x := span.From(); ; x = x.Next() {
				n, ok := p.numberOf(x)
				if skipped := p.SkipIPv4Ends && x.Is4() && (x.As4()[3] == 0 || x.As4()[3] == 255); skipped == ok {
					t.Errorf("pool %s: %s: skipped %v", p.name, x, skipped)
				}
				if ok {
					if back := p.addr(f, n); back != x {
						t.Errorf("pool %s: %s becomes %s", p.name, x, back)
					}
					total[f]++
					_, reserved := a.reserved[x]
					isNode := a.node(x) != "" || a.owner(x) != ""
					if want := a.held[x] == nil && a.leaving[x] == nil && !reserved && !isNode && !slices.Contains(p.Withheld, x); p.free[f].contains(n) != want {
						t.Errorf("pool %s: %s free: want %v", p.name, x, want)
					} else if want {
						free[f]++
					}
					if a.held[x] != nil {
						used[f]++
					}
					seen := map[string]bool{}
					for u := range users(a.held[x], f) {
						if ns := u.req.Service.Namespace; !seen[ns] {
							seen[ns] = true
							perNamespace[ns]++
						}
					}
				}
				if x == span.To() {
					break
				}
			}
		}
		for _, f := range lb.Families {
			if total[f] != p.total[f] || used[f] != p.used[f] || total[f]-int64(p.out[f]) != int64(free[f]) {
				t.Errorf("pool %s %s: total %d used %d out %d, want %d, %d and %d free", p.name, f, p.total[f], p.used[f], p.out[f], total[f], used[f], free[f])
			}
			checkIntervals(t, p.free[f])
		}
		for _, s := range a.services {
			for _, f := range lb.Families {
				if s.charged[f] == p {
					perNamespace[s.req.Service.Namespace]++
				}
				if s.charged[f] != nil && !(s.leased[f] && s.has[f].IsValid()) {
					t.Errorf("%s is charged for an address that it has not leased", s.req.Service)
				}
			}
		}
		if p.Quota != 0 && fmt.Sprint(p.perNamespace) != fmt.Sprint(perNamespace) {
			t.Errorf("pool %s: per namespace %v, want %v", p.name, p.perNamespace, perNamespace)
		}
	}
}

// checkIntervals: sorted, disjoint, not touching.
func checkIntervals(t failer, s intervals) {
	t.Helper()
	var last *interval
	s.tree.Ascend(func(i interval) bool {
		if i.to.less(i.from) {
			t.Errorf("interval %v ends before it starts", i)
		}
		if last != nil {
			if after, _ := last.to.next(); !after.less(i.from) {
				t.Errorf("intervals %v and %v touch", *last, i)
			}
		}
		last = &i
		return true
	})
}

// checkWaiting: the queues know exactly those who wait, and nobody waits for
// what could be had: to look again changes nothing.
func checkWaiting(t failer, a *Allocator) {
	t.Helper()
	for name, s := range a.services {
		if !s.settled {
			continue
		}
		has, verdict := s.has, s.verdict
		a.evaluate(s)
		s.verdict = verdict
		if s.has != has {
			t.Errorf("%s had %v while it could have %v", name, has, s.has)
		}
		if len(a.notes) > 0 {
			t.Errorf("%s: looking again notes %v", name, a.notes)
		}
		a.notes = nil
	}
	for _, touch := range a.touched {
		touch.service.touched = false
	}
	a.touched = nil
	waiting := 0
	for name, s := range a.services {
		if len(s.waits) > 0 {
			waiting++
		}
		for _, q := range s.waits {
			if !q.tree.Has(s) {
				t.Errorf("%s is not where it waits", name)
			}
		}
	}
	if waiting != a.waiters {
		t.Errorf("%d wait, want %d", a.waiters, waiting)
	}
}
