package kubevip

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Backend writes what kube-vip looks for.
type Backend struct{}

var (
	_ backend.Backend = Backend{}
	_ backend.Holder  = Backend{}
	_ backend.Marker  = Backend{}
	_ backend.Speaker = Backend{}
)

// Words are kube-vip's: it announces by what they say.
func (Backend) Words() lb.Dialect { return kubevip.Name }

// Sync says what the Service should say: what it has and what is wrong, in one write.
// Problems are reported in an annotation: a condition is in the status, and would
// need a second write. See ARCHITECTURE.md.
func (Backend) Sync(_ context.Context, w lb.Want) (lb.Outcome, error) {
	s := &w.Service
	if w.Gone {
		return gone(s, &w.Request), nil
	}
	v := w.Verdict
	out := lb.Outcome{Condition: lb.ConditionGoes, Owns: "annotations, labels or spec.loadBalancerIP, which kube-vip reads"}
	if Serves(v) {
		if v.Reason.Code == lb.WaitingForLease {
			v.Reason = kubevip.Reasons.With(kubevip.LeftToLease)
		}
		out.Marks = serve(s, w.Request.Families, v, w.Request.Interface)
	} else {
		out.Marks = wait(s, v)
	}
	out.Reason = v.Reason
	return out, nil
}

// gone takes our marks off s, or lets it go if it is being deleted. Until it is gone
// it holds its addresses.
func gone(s *lb.Service, r *lb.Request) lb.Outcome {
	out := lb.Outcome{Gone: true}
	if s.Deleting {
		out.Marks = kubevip.DropFinalizer(s)
		if held := kubevip.Held(s); len(out.Marks.Removed) > 0 && len(held) > 0 {
			out.Tell = []lb.Reason{lb.AddressReleased.With(prose.Addrs(held), "it is deleted")}
		}
		return out
	}
	out.Condition = lb.ConditionGoes
	if s.Attested() {
		out.Ingress = []lb.Ingress{}
	}
	if kubevip.HasMarks(s) {
		out.Marks = kubevip.Release(s, r.Interface, true)
	}
	return out
}

// Held is what is written on s. Everybody can write that, and kube-vip copies it into
// the status. Our condition, of the days when Fairlead announced s, is evidence.
func (Backend) Held(s *lb.Service) lb.Held {
	h := lb.Held{Addresses: kubevip.Believed(s), Evidence: lb.Asserted, Current: kubevip.Attested(s), Says: kubevip.WrittenReason(s)}
	h.Left = s.Labels[kubevip.Label] == kubevip.LabelValue
	if s.Attested() && len(s.Published()) > 0 {
		h.Evidence, h.Left = lb.Proven, true
	}
	return h
}

// Marked says whether s has something that is taken off when it is no longer served.
func (Backend) Marked(s *lb.Service) bool { return kubevip.HasMarks(s) || s.Says != nil }

// Forget has nothing to forget.
func (Backend) Forget(types.UID) {}
