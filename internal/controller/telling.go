package controller

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/lb"
)

// tell emits an event if the reason of v is not what the last one said. It runs
// after that was seen or written on the object, so that it is told also if the
// answer to the write was lost.
func (c *services) tell(s *corev1.Service, m *memo, r *lb.Request, v lb.Verdict) {
	if m.told.Same(v.Reason) {
		return
	}
	m.told = v.Reason
	voice := c.voice(r, v)
	c.events.add(serviceReference(s), voice, inVoice(voice, r, v))
	if m.warned || !slices.Contains(r.Dialects, lb.MetalLB) {
		return
	}
	if old, use := metallb.OldAnnotations(s); old != "" {
		m.warned = true
		c.events.add(serviceReference(s), lb.MetalLB, metallb.Reasons.With(metallb.OldAnnotation, old, use))
	}
}

// voice is the dialect in whose words the Service of r is told v. Where there are
// pools of MetalLB's kind and no others, that is MetalLB's.
func (c *services) voice(r *lb.Request, v lb.Verdict) lb.Dialect {
	switch {
	case len(v.Pools) > 0:
		return v.Pools[0].Dialect
	case slices.Contains(r.Dialects, lb.MetalLB) && c.ledger.only(lb.MetalLB):
		return lb.MetalLB
	}
	return r.Voice
}

// voiceOf is about the same for a Service as it is, of which no verdict is at hand.
// It does not ask the ledger, which calls it.
func (c *services) voiceOf(s *corev1.Service) lb.Dialect {
	if _, theirs := s.Annotations[metallb.AnnotationAllocatedFrom]; theirs {
		return lb.MetalLB
	}
	if class := servedBy(c.config, s); class != nil && len(class.Pools) > 0 {
		return class.Pools[0]
	}
	return lb.Native
}

// inVoice is the reason of v, the answer to r, as its event tells it.
func inVoice(voice lb.Dialect, r *lb.Request, v lb.Verdict) lb.Reason {
	if voice == lb.MetalLB {
		return metallb.EventText(r, v)
	}
	return v.Reason
}

// tellReleased tells of addresses that v has no longer because the Service asks
// for something else. It runs before the memo has what v says.
func (c *services) tellReleased(s *corev1.Service, m *memo, r *lb.Request, v lb.Verdict) {
	if m.written != "" && slices.Equal(m.published, v.Addresses) {
		return
	}
	before := m.asked
	m.asked = wishOf(r)
	if m.written == "" || before == m.asked {
		return // or two had one address, which is told otherwise
	}
	back := slices.DeleteFunc(slices.Clone(m.published), func(a netip.Addr) bool { return slices.Contains(v.Addresses, a) })
	if len(back) > 0 {
		c.events.add(serviceReference(s), c.voice(r, v), lb.AddressReleased.With(lb.ListAddrs(back), before.change(m.asked)))
	}
}

// wish is what a Service asks for, to be compared.
type wish struct {
	addresses, pool, families, sharing string
	move                               bool
}

func wishOf(r *lb.Request) wish {
	return wish{
		addresses: addressList(r.Addresses), pool: r.Pool, families: fmt.Sprint(r.Families, r.Policy),
		sharing: fmt.Sprint(r.ShareKey, r.Backends, r.Ports), move: r.Reallocate,
	}
}

// change says what w and now differ in.
func (w wish) change(now wish) string {
	switch {
	case w.addresses != now.addresses && now.addresses != "":
		return "it requests another address"
	case w.pool != now.pool:
		return "it requests another pool"
	case w.families != now.families:
		return "it requests other IP families"
	case w.sharing != now.sharing:
		return "its new sharing key, ports or traffic policy do not fit there"
	}
	return "it requests a move"
}

// noLongerOurs says why s, which was ours, is not.
func noLongerOurs(s *corev1.Service) string {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return "it is no longer of type LoadBalancer"
	}
	if kubevip.Ignored(s) {
		return "the annotation " + kubevip.AnnotationIgnore + " leaves it to others"
	}
	return "its class is not served"
}
