package kubevip

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
)

// patch is a strategic merge patch of a Service while it is made.
type patch struct {
	service                             *corev1.Service
	annotations, labels, metadata, spec map[string]any
}

func newPatch(s *corev1.Service) *patch {
	return &patch{service: s, annotations: map[string]any{}, labels: map[string]any{}, metadata: map[string]any{}, spec: map[string]any{}}
}

// note gives an annotation the value, "" meaning that it is not there.
func (p *patch) note(key, value string) {
	now, ok := p.service.Annotations[key]
	switch {
	case value == "" && ok:
		p.annotations[key] = nil
	case value != now:
		p.annotations[key] = value
	}
}

// ownsIP says whether spec.loadBalancerIP was written with what the Service was
// given, and nobody asks for it there.
func (p *patch) ownsIP() bool {
	ip := p.service.Spec.LoadBalancerIP
	return ip != "" && ip == kubevip.First(kubevip.Given(p.service)) && ip != p.service.Annotations[kubevip.AnnotationAsked]
}

// onlyNotes says whether the patch does nothing but note what the Service has, which
// kube-vip's cloud provider has left so that it can be told without.
func (p *patch) onlyNotes() bool {
	_, told := p.service.Annotations[native.AnnotationAllocatedFrom]
	if told || kubevip.Noted(p.service) || len(p.labels)+len(p.metadata)+len(p.spec) > 0 {
		return false
	}
	for key := range p.annotations {
		if key != kubevip.AnnotationGiven && key != kubevip.AnnotationAsked {
			return false
		}
	}
	return true
}

// setIP gives spec.loadBalancerIP the value.
func (p *patch) setIP(value string) {
	switch {
	case value == p.service.Spec.LoadBalancerIP:
	case value == "":
		p.spec["loadBalancerIP"] = nil
	default:
		p.spec["loadBalancerIP"] = value
	}
}

func (p *patch) dropFinalizer() {
	for _, f := range p.service.Finalizers {
		if f == kubevip.Finalizer {
			p.metadata["$deleteFromPrimitiveList/finalizers"] = []string{kubevip.Finalizer}
		}
	}
}

// marshal returns the patch, or nil if it changes nothing. It carries the
// resourceVersion that the decision was made on, so that it fails rather than
// overwrites what somebody else has written since.
func (p *patch) marshal() []byte {
	if len(p.annotations)+len(p.labels)+len(p.metadata)+len(p.spec) == 0 {
		return nil
	}
	if _, old := p.service.Labels[kubevip.LabelOld]; old {
		p.labels[kubevip.LabelOld] = nil
	}
	if len(p.annotations) > 0 {
		p.metadata["annotations"] = p.annotations
	}
	if len(p.labels) > 0 {
		p.metadata["labels"] = p.labels
	}
	p.metadata["resourceVersion"] = p.service.ResourceVersion
	out := map[string]any{"metadata": p.metadata}
	if len(p.spec) > 0 {
		out["spec"] = p.spec
	}
	data, err := json.Marshal(out)
	if err != nil { // maps and lists of strings always marshal
		panic(err)
	}
	return data
}
