package kubevip

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/notary"
	"fairlead.io/internal/prose"
)

// Backend writes what kube-vip looks for.
type Backend struct {
	// Notary signs what is noted on Services. Without one, what is written on them is
	// never more than a tenant's word.
	Notary *notary.Notary
}

var (
	_ backend.Backend = Backend{}
	_ backend.Holder  = Backend{}
	_ backend.Marker  = Backend{}
	_ backend.Speaker = Backend{}
	_ backend.Witness = Backend{}
)

// Words are kube-vip's: it announces by what they say.
func (Backend) Words() lb.Dialect { return kubevip.Name }

// Sync says what the Service should say: what it has and what is wrong, in one write.
// Problems are reported in an annotation: a condition is in the status, and would
// need a second write. See ARCHITECTURE.md.
func (b Backend) Sync(_ context.Context, w lb.Want) (lb.Outcome, error) {
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
		out.Marks = b.serve(s, w.Request.Families, v, w.Request.Interface)
	} else {
		out.Marks = b.wait(s, v)
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
// the status. Evidence is our condition, of the days when Fairlead announced s, or a
// note with our proof. At the first start there are no proofs yet, and what kube-vip's
// cloud provider left counts as what it is: the word of another controller.
func (b Backend) Held(s *lb.Service) lb.Held {
	h := lb.Held{Addresses: kubevip.Believed(s), Evidence: lb.Asserted, Says: kubevip.WrittenReason(s)}
	labelled := s.Labels[kubevip.Label] == kubevip.LabelValue
	h.Left = labelled && (len(h.Addresses) == 0 || s.Deleting) // it is let go, and reserves nothing
	switch has, noted, same := b.noted(s); {
	case s.Attested() && len(s.Published()) > 0:
		h.Evidence, h.Left, h.Current = lb.Proven, true, kubevip.Attested(s)
	case len(has) > 0 && slices.Equal(h.Addresses, has):
		h.Evidence, h.Noted, h.Left, h.Current = lb.Proven, noted, true, kubevip.Attested(s)
		if !same { // it cannot be told from a note of the days when it shared them
			h.Evidence = lb.Reported
		}
	case b.Notary.First():
		h.Evidence, h.Left = lb.Reported, labelled
	}
	return h
}

// Proven returns what a Fairlead controller noted that s has, as it is, and when.
func (b Backend) Proven(s *lb.Service) (has []netip.Addr, noted time.Time) {
	if has, noted, same := b.noted(s); same {
		return has, noted
	}
	return nil, time.Time{}
}

// noted is Proven, be its ports the same or not.
func (b Backend) noted(s *lb.Service) (has []netip.Addr, noted time.Time, same bool) {
	held := kubevip.Held(s)
	noted, same, ok := b.Notary.Check(s.UID, held, ports(s), s.Annotations[kubevip.AnnotationProof])
	if !ok {
		return nil, time.Time{}, false
	}
	return held, noted, same
}

// Read gets the key of the notes, if there are any.
func (b Backend) Read(ctx context.Context, secrets typedcorev1.SecretInterface) error {
	return b.Notary.Read(ctx, secrets)
}

// Open gets the key of the notes.
func (b Backend) Open(ctx context.Context, secrets typedcorev1.SecretInterface) (first bool, err error) {
	err = b.Notary.Open(ctx, secrets)
	return b.Notary.First(), err
}

// Close ends the first start.
func (b Backend) Close(ctx context.Context, secrets typedcorev1.SecretInterface) error {
	return b.Notary.Close(ctx, secrets)
}

// Note has the marks that say what s, which is left alone, has.
func (b Backend) Note(s *lb.Service) lb.Marks {
	p := b.draft(s)
	p.prove(kubevip.Held(s))
	return p.Marks
}

// Marked says whether s has something that is taken off when it is no longer served.
func (Backend) Marked(s *lb.Service) bool { return kubevip.HasMarks(s) || s.Says != nil }

// Forget has nothing to forget.
func (Backend) Forget(types.UID) {}
