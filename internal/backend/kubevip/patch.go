package kubevip

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/notary"
)

// draft is the marks of a Service while they are made: only what differs from those
// that it has.
type draft struct {
	service *lb.Service
	notary  *notary.Notary
	lb.Marks
}

func (b Backend) draft(s *lb.Service) draft { return draft{service: s, notary: b.Notary} }

// prove signs that the Service has the addresses, of which those that stand for one
// from a DHCP server do not count, unless it says so already.
func (p *draft) prove(has []netip.Addr) {
	has = slices.DeleteFunc(slices.Clone(has), netip.Addr.IsUnspecified)
	proof := p.service.Annotations[kubevip.AnnotationProof]
	if _, same, ok := p.notary.Check(p.service.UID, has, ports(p.service), proof); !ok || !same {
		p.note(kubevip.AnnotationProof, p.notary.Sign(p.service.UID, has, ports(p.service), time.Now()))
	}
}

// ports of s, as a note has them.
func ports(s *lb.Service) (out []string) {
	for _, p := range s.Ports {
		out = append(out, fmt.Sprintf("%s/%d", p.Protocol, p.Number))
	}
	return out
}

// note gives an annotation the value, "" meaning that it is not there.
func (p *draft) note(key, value string) {
	if now, ok := p.service.Annotations[key]; value != now || ok && value == "" {
		p.Annotate(key, value)
	}
}

// setIP gives spec.loadBalancerIP the value.
func (p *draft) setIP(value string) {
	if value != p.service.LoadBalancerIP {
		p.LoadBalancerIP = &value
	}
}

// done returns the marks. A label of old goes with the next that is written anyway.
func (p *draft) done() lb.Marks {
	_, old := p.service.Labels[kubevip.LabelOld]
	if changes := len(p.Annotations)+len(p.Labels)+len(p.Finalizers) > 0 || p.LoadBalancerIP != nil; changes && old {
		p.Label(kubevip.LabelOld, "")
	}
	return p.Marks
}
