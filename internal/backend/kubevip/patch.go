package kubevip

import (
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

// draft is the marks of a Service while they are made: only what differs from those
// that it has.
type draft struct {
	service *lb.Service
	lb.Marks
}

// note gives an annotation the value, "" meaning that it is not there.
func (p *draft) note(key, value string) {
	if now, ok := p.service.Annotations[key]; value != now || ok && value == "" {
		p.Annotate(key, value)
	}
}

// onlyNotes says whether the marks do nothing but note what the Service has, which
// kube-vip's cloud provider has left so that it can be told without.
func (p *draft) onlyNotes() bool {
	_, marked := p.service.Annotations[native.AnnotationAllocatedFrom]
	if marked || kubevip.Noted(p.service) || len(p.Labels)+len(p.Finalizers) > 0 || p.LoadBalancerIP != nil {
		return false
	}
	for key := range p.Annotations {
		if key != kubevip.AnnotationGiven && key != kubevip.AnnotationAsked {
			return false
		}
	}
	return true
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
