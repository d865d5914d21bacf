// Package kubevip says what is written onto a Service so that kube-vip announces
// its addresses: everything that kube-vip's cloud provider writes, in one patch.
// It must not know how that is sent, and writes no status, which is kube-vip's.
package kubevip

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

// Serves says whether v is an answer that is written: the Service has all it
// asks for, or the rest is for kube-vip to lease.
func Serves(v lb.Verdict) bool { return v.Reason.Ready() || v.Reason.Code == lb.WaitingForLease }

// Text is what v is written as: addresses in the order of the Service's families,
// 0.0.0.0 or :: for one that a DHCP server gives.
func Text(families []lb.Family, v lb.Verdict) string {
	var out []string
	for _, f := range families {
		if v.DHCP[f] {
			out = append(out, unspecified[f].String())
			continue
		}
		for _, a := range v.Addresses {
			if lb.FamilyOf(a) == f {
				out = append(out, a.String())
			}
		}
	}
	return strings.Join(out, ",")
}

var unspecified = [len(lb.Families)]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}

// Patch returns the strategic merge patch that makes s say v, which Serves, the
// answer to a request with families; iface is where it is to be announced, if
// that is said. It is nil if s says so already. What somebody asks for in his own
// words stays as it is written; see package compat/kubevip for what is noted.
func Patch(s *corev1.Service, families []lb.Family, v lb.Verdict, iface string) []byte {
	p := newPatch(s)
	text := Text(families, v)
	if annotated := strings.TrimSpace(s.Annotations[kubevip.AnnotationAddresses]); sameSet(annotated, text) {
		text = annotated // however it is written
	}
	wish, inSpec := kubevip.Wish(s)
	switch granted := wish != "" && covers(text, wish); {
	case granted && inSpec:
		p.note(kubevip.AnnotationAddresses, text)
		p.note(kubevip.AnnotationGiven, text)
		p.note(kubevip.AnnotationAsked, wish)
	case granted:
		if p.ownsIP() {
			p.setIP("")
		}
		p.note(kubevip.AnnotationGiven, "")
		p.note(kubevip.AnnotationAsked, wish)
	default:
		if _, has := s.Annotations[kubevip.AnnotationInterface]; !has && kubevip.Given(s) == "" {
			p.note(kubevip.AnnotationInterface, iface)
		}
		p.note(kubevip.AnnotationAddresses, text)
		p.note(kubevip.AnnotationGiven, text)
		p.note(kubevip.AnnotationAsked, "")
		p.setIP(kubevip.First(text))
	}
	p.note(native.AnnotationReason, note(v.Reason))
	if s.Labels[kubevip.Label] != kubevip.LabelValue {
		p.labels[kubevip.Label] = kubevip.LabelValue
	}
	if !slices.Contains(s.Finalizers, kubevip.Finalizer) {
		p.metadata["finalizers"] = []string{kubevip.Finalizer}
	}
	if p.onlyNotes() {
		return nil // of a Service that is taken over as it is
	}
	if v.Reason.Code != lb.OutOfPool { // what is out of pool goes on naming the pool that it is from
		pools := make([]string, 0, len(v.Pools))
		for _, pool := range v.Pools {
			pools = append(pools, pool.String())
		}
		p.note(native.AnnotationAllocatedFrom, strings.Join(pools, ","))
	}
	return p.marshal()
}

// Wait returns the patch that makes s say v, which does not Serve: why it has not
// got what it asks for; nil if it says so already. It is in an annotation, so that
// it goes in the one write that gives the Service its address. What s has no more
// may be somebody else's by now, so that is noted, too.
func Wait(s *corev1.Service, v lb.Verdict) []byte {
	p := newPatch(s)
	p.note(native.AnnotationReason, note(v.Reason))
	if left := listed(v.Addresses); kubevip.Noted(s) && !sameSet(listed(kubevip.Held(s)), left) {
		p.note(kubevip.AnnotationGiven, cmp.Or(left, kubevip.Nothing))
		p.note(kubevip.AnnotationAsked, "")
	}
	return p.marshal()
}

func listed(addresses []netip.Addr) string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return strings.Join(texts, ",")
}

// note is what is written of r: nothing if all is well.
func note(r lb.Reason) string {
	if r.Ready() && !r.Warning() {
		return ""
	}
	return r.String()
}

// Marked says whether s has something that is taken off when it is no longer
// served.
func Marked(s *corev1.Service) bool {
	for _, key := range []string{kubevip.AnnotationGiven, kubevip.AnnotationAsked, native.AnnotationReason} {
		if _, ok := s.Annotations[key]; ok {
			return true
		}
	}
	return Kept(s)
}

// Kept says whether s cannot go before its address has been given back to kube-vip's
// cloud provider, or to Fairlead in its place. Its finalizer has a name that the
// controllers of clouds use, too; what else it wrote tells whose it is.
func Kept(s *corev1.Service) bool {
	_, annotated := s.Annotations[kubevip.AnnotationAddresses]
	return slices.Contains(s.Finalizers, kubevip.Finalizer) && (annotated || s.Labels[kubevip.Label] == kubevip.LabelValue)
}

// Release returns the patch that takes off everything of ours, and of kube-vip's
// cloud provider, so that the Service can go, and so can its address; nil if there
// is nothing. What somebody asked for stays. Without spec, which the status
// subresource does not write, what the Service was given stays known as that: it is
// no wish. iface is what Patch would write: where the Service has another, it is
// somebody's choice.
func Release(s *corev1.Service, iface string, withSpec bool) []byte {
	p := newPatch(s)
	given := kubevip.Given(s)
	if given != "" && s.Annotations[kubevip.AnnotationInterface] == iface {
		p.note(kubevip.AnnotationInterface, "")
	}
	if withSpec || !p.ownsIP() {
		if given != "" && given == strings.TrimSpace(s.Annotations[kubevip.AnnotationAddresses]) {
			p.note(kubevip.AnnotationAddresses, "")
		}
		if p.ownsIP() {
			p.setIP("")
		}
		given = ""
	}
	p.note(kubevip.AnnotationGiven, given)
	for _, key := range []string{kubevip.AnnotationAsked, native.AnnotationAllocatedFrom, native.AnnotationReason, kubevip.AnnotationHost} {
		p.note(key, "")
	}
	if s.Labels[kubevip.Label] == kubevip.LabelValue {
		p.labels[kubevip.Label] = nil
	}
	p.dropFinalizer()
	return p.marshal()
}

// LetGo returns the patch that lets s, which is being deleted, go; nil if others
// still keep it, or we do not.
func LetGo(s *corev1.Service) []byte {
	if !slices.Equal(s.Finalizers, []string{kubevip.Finalizer}) {
		return nil
	}
	p := newPatch(s)
	p.dropFinalizer()
	return p.marshal()
}

// sameSet says whether two lists have the same addresses, however written.
func sameSet(a, b string) bool { return slices.Equal(addresses(a), addresses(b)) }

// covers says whether all addresses of a wish, which has some, are in a list.
func covers(list, wish string) bool {
	has, wants := addresses(list), addresses(wish)
	return len(wants) > 0 && !slices.ContainsFunc(wants, func(a netip.Addr) bool { return !slices.Contains(has, a) })
}

func addresses(list string) (out []netip.Addr) {
	for field := range strings.SplitSeq(list, ",") {
		if a, err := lb.ParseAddr(field); err == nil && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}
