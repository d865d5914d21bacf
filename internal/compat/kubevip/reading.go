package kubevip

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Reading is what the ConfigMap says, and what Services say beside it.
type Reading struct {
	Config *Config
	pools  []lb.Pool
	key    types.NamespacedName
	uid    types.UID // "" if it is not there
	unread string    // why it cannot be read, if it cannot
}

// Pools of the ConfigMap.
func (r *Reading) Pools() []lb.Pool { return r.pools }

// Warnings tell what is wrong with keys of the ConfigMap.
func (r *Reading) Warnings() []lb.Warning {
	var out []lb.Warning
	for _, p := range r.Config.Problems {
		out = append(out, lb.Warning{About: *r.about(), Reason: p.Reason})
	}
	return out
}

func (r *Reading) about() *lb.Object {
	return &lb.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: r.key.Namespace, Name: r.key.Name, UID: r.uid}
}

// Same says whether Services are read as before.
func (r *Reading) Same(o compat.Reading) bool {
	other, ok := o.(*Reading)
	return ok && r.Config.SameForServices(other.Config) && r.unread == other.unread
}

// Honours says whether Services of a class are read in these words, those about DHCP and
// interfaces among them: an administrator has switched that on. It is what the class's
// backend speaks, its first pools are of this dialect, or there is a ConfigMap.
func (r *Reading) Honours(in compat.Class) bool {
	if in.Words == Name {
		return true
	}
	switch slices.Index(in.Dialects, Name) {
	case -1:
		return false
	case 0:
		return true
	}
	return r.Config != nil && r.Config.Present
}

// Strip hides spec.loadBalancerIP from other dialects.
func (r *Reading) Strip(s *lb.Service, in compat.Class) *lb.Service {
	if !r.Honours(in) {
		return s
	}
	return strip(s)
}

// Amend adds what s asks for. Where the ConfigMap cannot be read, nothing can be reason
// of Services that have addresses of it. Those that ask in these words, or are to
// have addresses of it before others, wait for it.
func (r *Reading) Amend(q *lb.Request, s *lb.Service, in compat.Class) {
	q.Interface = r.Config.Interface(s.Key.Namespace)
	if r.Honours(in) {
		r.Config.amend(q, s)
	} else if words := dhcpWords(s); len(words) > 0 && r.unread == "" {
		reason := Reasons.With(LeaseNotPermitted, prose.And(words)+map[bool]string{true: " is", false: " are"}[len(words) == 1], r.key)
		q.Ignored = &reason
	}
	if !r.Honours(in) && strings.HasPrefix(s.Annotations[native.AnnotationAllocatedFrom], string(Name)+"/") {
		stay(q)
	}
	if in.Words == Name { // kube-vip announces, and sees to the traffic policy
		q.Backends = ""
		narrow(q, s)
	}
	if r.unread == "" || !slices.Contains(in.Dialects, Name) {
		if inherits(s, in) {
			q.Inherits = true
			if len(q.Addresses) == 0 {
				q.Addresses, q.Anywhere = Held(s), r.Config.Anywhere(in.Dialects[0])
			}
		}
		return
	}
	published := s.Published()
	if in.Words == Name {
		published = Believed(s)
	}
	switch has := len(published) > 0 || s.Annotations[AnnotationGiven] != ""; {
	case has && Speaks(s):
		q.AsIs = true
	case !has && (Speaks(s) || in.Dialects[0] == Name):
		reason := lb.PoolsUnreadable.With("ConfigMap "+r.key.String()+", which has the pools", r.unread, "Allow it to get, list and watch that")
		q.Invalid = &reason
	}
}

// inherits says whether s, which Fairlead announces, was given an address for
// kube-vip to announce, which has not done so: it is to have that now, as far as
// anybody may who asks for it. Everybody can write that on a Service.
func inherits(s *lb.Service, in compat.Class) bool {
	requested, _ := Requested(s)
	return in.Words != Name && slices.Contains(in.Dialects, Name) && Given(s) != "" &&
		requested == "" && s.Says == nil && len(s.Published()) == 0
}

// Believed are the addresses that s, which kube-vip announces, is believed to hold:
// those that are written on it, unless we have refused what is asked for there. Where
// kube-vip has not been told anything yet, it may have others in its status, of the
// days when somebody else announced it.
func Believed(s *lb.Service) []netip.Addr {
	held := Held(s)
	requested, _ := Requested(s)
	reason := WrittenReason(s)
	switch published := s.Published(); {
	case s.Says != nil && len(published) > 0 && s.Attested():
		return published
	case requested == "" && len(held) == 0 && Given(s) == "":
		return published
	case requested != "" && !Noted(s) && reason != nil && !reason.Ready():
		return nil
	}
	return held
}

// WrittenReason is the reason that is written on s: in our condition or, where the status is
// kube-vip's to write, in an annotation.
func WrittenReason(s *lb.Service) *lb.Reason {
	if s.Says != nil {
		return &s.Says.Reason
	}
	code, text, known := strings.Cut(s.Annotations[native.AnnotationReason], ": ")
	if !known {
		return nil
	}
	reason := lb.Rebuilt(lb.Code(code), text, lb.Common[lb.Code(code)].Ready || Reasons[lb.Code(code)].Ready)
	return &reason
}
