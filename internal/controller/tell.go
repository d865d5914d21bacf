package controller

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// tell emits events for what of an outcome has not been reported yet. It runs
// after that was seen or written on the object, so that it is reported even if the
// answer to the write was lost.
func (c *services) tell(w *lb.Want, m *memo, out *lb.Outcome, reason lb.Reason) {
	about, voice := reference(&w.Service), c.voice(&w.Request, &w.Verdict)
	v := w.Verdict
	v.Reason = reason
	news := m.news(out, reason)
	for _, r := range news {
		c.events.add(about, voice.Event(r, &w.Request, &v), r.Warning())
	}
	if m.warned || w.Gone || !slices.ContainsFunc(news, reason.Equal) {
		return // after a restart, it was told with what the Service says already
	}
	for _, d := range c.classes.dialects {
		if deprecator, ok := d.(compat.Deprecator); ok && slices.Contains(w.Request.Dialects, d.Name()) {
			if r := deprecator.Deprecated(&w.Service); r != nil {
				m.warned = true
				c.events.add(about, d.Voice().Event(*r, nil, nil), r.Warning())
			}
		}
	}
}

// voice in which v is reported to the Service of r: that of its pool's dialect.
// Without an address it is that of the dialect which all pools are of, if that speaks alone;
// else the one in whose words the Service asks.
func (c *common) voice(r *lb.Request, v *lb.Verdict) compat.Voice {
	if len(v.Pools) > 0 {
		return c.classes.voice(v.Pools[0].Dialect)
	}
	for _, d := range r.Dialects {
		if voice := c.classes.voice(d); voice.Alone() && c.ledger.only(d) {
			return voice
		}
	}
	return c.classes.voice(r.Voice)
}

// tellReleased tells of addresses that the verdict has no longer because the Service
// asks for something else. It runs before the memo has what the verdict says.
func (c *services) tellReleased(w *lb.Want, m *memo, out *lb.Outcome) {
	if out.Ingress == nil || w.Gone || m.written != "" && slices.Equal(m.published, w.Verdict.Addresses) {
		return
	}
	before := m.asked
	m.asked = askedOf(&w.Request)
	if m.written == "" || before == m.asked {
		return // or two had one address, which is reported separately
	}
	back := slices.DeleteFunc(slices.Clone(m.published), func(a netip.Addr) bool { return slices.Contains(w.Verdict.Addresses, a) })
	if len(back) > 0 {
		r := lb.AddressReleased.With(prose.Addrs(back), before.change(m.asked))
		c.events.add(reference(&w.Service), c.voice(&w.Request, &w.Verdict).Event(r, nil, nil), r.Warning())
	}
}

// asked is what a Service asks for, to be compared.
type asked struct {
	addresses, pool, families, sharing string
	move                               bool
}

func askedOf(r *lb.Request) asked {
	return asked{
		addresses: prose.Commas(r.Addresses), pool: r.Pool, families: fmt.Sprint(r.Families, r.Policy),
		sharing: fmt.Sprint(r.ShareKey, r.Backends, r.Ports), move: r.Reallocate,
	}
}

// change says what a and now differ in.
func (a asked) change(now asked) string {
	switch {
	case a.addresses != now.addresses && now.addresses != "":
		return "it requests another address"
	case a.pool != now.pool:
		return "it requests another pool"
	case a.families != now.families:
		return "it requests other IP families"
	case a.sharing != now.sharing:
		return "its new sharing key, ports or traffic policy do not fit there"
	}
	return "it requests a move"
}

// tellContest says on both Services that they had one address, in the words of the
// dialect that its pool is from. It does not ask the ledger, which calls it.
func (c *common) tellContest(ctx context.Context, contest ipam.Contest, from lb.Dialect) {
	for service, reason := range map[types.NamespacedName]lb.Reason{
		contest.Winner: lb.AddressContested.With(contest.Address, contest.Loser),
		contest.Loser:  lb.AddressInUse.With(contest.Address, contest.Winner, c.classes.words()[lb.Native].Share),
	} {
		var object corev1.Service
		if err := c.cache.Get(ctx, service, &object); err != nil {
			continue // it is gone
		}
		s, voice := kubeapi.Service(&object), c.classes.voice(cmp.Or(from, lb.Native))
		if class := c.classes.of(s); class != nil && from == "" {
			r := c.readings.current().Request(s, nil, c.classes.reading(class))
			voice = c.classes.voice(r.Voice)
		}
		c.events.add(reference(s), voice.Event(reason, nil, nil), reason.Warning())
	}
	c.log.Warn("two Services held the same address", "address", contest.Address, "kept by", contest.Winner, "lost by", contest.Loser)
}

func reference(s *lb.Service) corev1.ObjectReference {
	return kubeapi.ServiceReference(s.Key, s.UID)
}
