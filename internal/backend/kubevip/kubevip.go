// Package kubevip is the backend of addresses that kube-vip announces. It decides
// what is written to a Service: everything that kube-vip's cloud provider writes, in
// one patch. It makes no calls, and leaves the status to kube-vip, which owns it.
package kubevip

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
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

// serve returns the marks that make s say v, which Serves, the answer to a request
// with families; iface is where it is to be announced, if that is said. What
// somebody asks for in his own words stays as it is written; see package
// compat/kubevip for what is noted.
func (b Backend) serve(s *lb.Service, families []lb.Family, v lb.Verdict, iface string) lb.Marks {
	p := b.draft(s)
	text := Text(families, v)
	if annotated := strings.TrimSpace(s.Annotations[kubevip.AnnotationAddresses]); sameSet(annotated, text) {
		text = annotated // however it is written
	}
	requested, inSpec := kubevip.Requested(s)
	switch granted := requested != "" && covers(text, requested); {
	case granted && inSpec:
		p.note(kubevip.AnnotationAddresses, text)
		p.note(kubevip.AnnotationGiven, text)
		p.note(kubevip.AnnotationAsked, requested)
		p.prove(addresses(text))
	case granted:
		if kubevip.OwnsIP(s) {
			p.setIP("")
		}
		p.note(kubevip.AnnotationGiven, "")
		p.note(kubevip.AnnotationAsked, requested)
		p.prove(addresses(requested))
	default:
		if _, has := s.Annotations[kubevip.AnnotationInterface]; !has && kubevip.Given(s) == "" {
			p.note(kubevip.AnnotationInterface, iface)
		}
		p.note(kubevip.AnnotationAddresses, text)
		p.note(kubevip.AnnotationGiven, text)
		p.note(kubevip.AnnotationAsked, "")
		p.prove(addresses(text))
		p.setIP(kubevip.First(text))
	}
	p.note(native.AnnotationReason, note(v.Reason))
	if s.Labels[kubevip.Label] != kubevip.LabelValue {
		p.Label(kubevip.Label, kubevip.LabelValue)
	}
	if !slices.Contains(s.Finalizers, lb.CleanupFinalizer) {
		p.Finalizers = []string{lb.CleanupFinalizer}
	}
	if v.Reason.Code != lb.OutOfPool { // what is out of pool goes on naming the pool that it is from
		p.note(native.AnnotationAllocatedFrom, strings.Join(prose.Texts(v.Pools), ","))
	}
	return p.done()
}

// wait returns the marks that make s say v, which does not Serve: why it has not got
// what it asks for. It is in an annotation, so that
// it goes in the one write that gives the Service its address. What s has no more
// may be somebody else's by now, so that is noted, too.
func (b Backend) wait(s *lb.Service, v lb.Verdict) lb.Marks {
	p := b.draft(s)
	p.note(native.AnnotationReason, note(v.Reason))
	left := listed(v.Addresses)
	same := sameSet(listed(kubevip.Held(s)), left)
	if kubevip.Noted(s) && !same {
		p.note(kubevip.AnnotationGiven, cmp.Or(left, kubevip.Nothing))
		p.note(kubevip.AnnotationAsked, "")
	}
	if kubevip.Noted(s) || same {
		p.prove(v.Addresses)
	}
	return p.done()
}

func listed(addresses []netip.Addr) string { return strings.Join(prose.Texts(addresses), ",") }

// note is what is written of r: nothing if all is well.
func note(r lb.Reason) string {
	if r.Ready() && !r.Warning() {
		return ""
	}
	return r.String()
}

// sameSet says whether two lists have the same addresses, however written.
func sameSet(a, b string) bool { return slices.Equal(addresses(a), addresses(b)) }

// covers says whether all addresses of a request, which has some, are in a list.
func covers(list, requested string) bool {
	has, wants := addresses(list), addresses(requested)
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
