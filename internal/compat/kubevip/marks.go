package kubevip

import (
	"slices"
	"strings"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

// HasMarks says whether s has something that is taken off when it is no longer
// served.
func HasMarks(s *lb.Service) bool {
	for _, key := range []string{AnnotationGiven, AnnotationAsked, AnnotationProof, native.AnnotationReason} {
		if _, ok := s.Annotations[key]; ok {
			return true
		}
	}
	return HasFinalizer(s)
}

// HasFinalizer says whether s cannot go before its address has been given back to
// kube-vip's cloud provider, or to Fairlead which replaces it. Its finalizer has a
// name that the controllers of clouds use, too; what else it wrote tells whose it
// is.
func HasFinalizer(s *lb.Service) bool {
	_, annotated := s.Annotations[AnnotationAddresses]
	return slices.Contains(s.Finalizers, lb.CleanupFinalizer) && (annotated || s.Labels[Label] == LabelValue)
}

// Release takes off everything of ours, and of kube-vip's cloud provider, so that
// the Service can go, and so can its address. What somebody asked for stays. Without
// spec, which the status subresource does not write, what the Service was given stays
// known as that: it is not a request. iface is what is written for its namespace:
// where the Service has another, it is somebody's choice.
func Release(s *lb.Service, iface string, withSpec bool) (m lb.Marks) {
	given := Given(s)
	if given != "" && s.Annotations[AnnotationInterface] == iface {
		m.Annotate(AnnotationInterface, "")
	}
	owns := OwnsIP(s)
	if withSpec || !owns {
		if given != "" && given == strings.TrimSpace(s.Annotations[AnnotationAddresses]) {
			m.Annotate(AnnotationAddresses, "")
		}
		if owns {
			m.LoadBalancerIP = new(string)
		}
		given = ""
	}
	m.Annotate(AnnotationGiven, given)
	for _, key := range []string{AnnotationAsked, AnnotationProof, native.AnnotationAllocatedFrom, native.AnnotationReason, AnnotationHost} {
		m.Annotate(key, "")
	}
	if s.Labels[Label] == LabelValue {
		m.Label(Label, "")
	}
	m.Label(LabelOld, "")
	m.Removed = []string{lb.CleanupFinalizer}
	return m
}

// DropFinalizer lets s, which is being deleted, go, unless others still keep it.
func DropFinalizer(s *lb.Service) (m lb.Marks) {
	if slices.Equal(s.Finalizers, []string{lb.CleanupFinalizer}) {
		m.Removed = []string{lb.CleanupFinalizer}
	}
	return m
}

// OwnsIP says whether spec.loadBalancerIP was written with what the Service was
// given, and nobody asks for it there.
func OwnsIP(s *lb.Service) bool {
	ip := s.LoadBalancerIP
	return ip != "" && ip == First(Given(s)) && ip != s.Annotations[AnnotationAsked]
}

// Marked says whether s, which Fairlead announced, has marks to be taken off.
// Without having served it, those of kube-vip's cloud provider are another's, unless
// s is being deleted and waits for somebody to let it go.
func (Dialect) Marked(s *lb.Service, known bool) bool {
	if s.Deleting {
		return HasFinalizer(s)
	}
	return HasMarks(s) && (known || s.Annotations[AnnotationGiven] != "")
}

// Leave takes marks off, or lets s go if it is being deleted.
func (Dialect) Leave(s *lb.Service, r *lb.Request) lb.Marks {
	if s.Deleting {
		return DropFinalizer(s)
	}
	return Release(s, r.Interface, false)
}
