// Package compat reads Services in all dialects that their class may use, and
// settles what they say together.
package compat

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

// Words of all dialects, for sentences about their pools.
var Words = map[lb.Dialect]lb.Words{lb.Native: native.Words, metallb.Dialect: metallb.Words, kubevip.Dialect: kubevip.Words}

// Context is what else counts when a Service is read.
type Context struct {
	NamespaceLabels map[string]string
	// Dialects whose pools the Service's class may use.
	Dialects []lb.Dialect
	// KubeVIP is what the ConfigMap of kube-vip's cloud provider says; nil is one
	// that is not there.
	KubeVIP *kubevip.Config
	// Elsewhere: others announce the addresses, and see to the traffic policy.
	Elsewhere bool
}

// Request translates s, a Service of type LoadBalancer whose class may use the
// pools of dialects. What cannot be understood is said in Request.Invalid.
func Request(s *corev1.Service, namespaceLabels map[string]string, dialects []lb.Dialect) lb.Request {
	return Context{NamespaceLabels: namespaceLabels, Dialects: dialects}.Request(s)
}

// Request translates s, a Service of type LoadBalancer. What cannot be understood
// is said in Request.Invalid.
func (c Context) Request(s *corev1.Service) lb.Request {
	asked := s
	if c.speaksKubeVIP() {
		asked = kubevip.Strip(s)
	}
	r := native.Request(asked, c.NamespaceLabels, c.Dialects)
	r.Voice = lb.Native
	if len(c.Dialects) > 0 {
		r.Voice = c.Dialects[0]
	}
	if slices.Contains(c.Dialects, metallb.Dialect) {
		amend(&r, asked)
	}
	if c.speaksKubeVIP() {
		config := c.KubeVIP
		if config == nil {
			config = kubevip.Parse(nil)
		}
		config.Amend(&r, s)
	} else if slices.Contains(c.Dialects, kubevip.Dialect) && strings.HasPrefix(s.Annotations[native.AnnotationAllocatedFrom], string(kubevip.Dialect)+"/") {
		kubevip.Stay(&r)
	}
	for field := range strings.SplitSeq(s.Annotations[native.AnnotationDHCP], ",") {
		for _, f := range lb.Families {
			r.DHCP[f] = r.DHCP[f] || field == f.String() && !r.Reallocate
		}
	}
	if c.Elsewhere {
		r.Backends = ""
		kubevip.Narrow(&r, s)
	}
	return r
}

// speaksKubeVIP says whether Services are read in kube-vip's words, too: where
// they are what others announce by, they come first, or somebody has made a
// ConfigMap.
func (c Context) speaksKubeVIP() bool {
	if c.Elsewhere {
		return true
	}
	switch slices.Index(c.Dialects, kubevip.Dialect) {
	case -1:
		return false
	case 0:
		return true
	}
	return c.KubeVIP != nil && c.KubeVIP.Present
}

// amend adds to r what the annotations of MetalLB ask for. Both dialects may ask
// for the same thing, but not for different ones: nobody could tell which is meant.
func amend(r *lb.Request, s *corev1.Service) {
	asks := metallb.Read(s, r.Families)
	if asks.Annotated {
		r.Voice = metallb.Dialect
	}
	if asks.From != "" && !slices.Contains(r.From, asks.From) {
		r.From = append(r.From, asks.From)
	}
	var wrong []string
	settle := func(ours *string, annotation string, theirs metallb.Wish) {
		switch {
		case theirs.Value == "":
		case *ours == "":
			*ours = theirs.Value
		case *ours != theirs.Value:
			wrong = append(wrong, contradiction(annotation, *ours, theirs))
		}
	}
	switch ours, theirs := r.Pool != "", asks.Pool.Value != ""; {
	case ours && !theirs:
		r.Dialects = first(lb.Native, r.Dialects)
	case theirs && !ours:
		r.Dialects = first(metallb.Dialect, r.Dialects)
	}
	settle(&r.Pool, native.AnnotationPool, asks.Pool)
	settle(&r.ShareKey, native.AnnotationShare, asks.ShareKey)
	switch list := s.Annotations[native.AnnotationAddresses]; {
	case len(asks.Addresses) == 0:
	case list == "":
		r.Addresses = asks.Addresses
	case asks.Invalid == nil && r.Invalid == nil && !sameSet(r.Addresses, asks.Addresses):
		wrong = append(wrong, contradiction(native.AnnotationAddresses, list, asks.List))
	}
	if len(wrong) > 0 {
		invalid(r, lb.InvalidRequest.With(strings.Join(wrong, "; ")))
	}
	if asks.Invalid != nil {
		invalid(r, *asks.Invalid)
	}
}

// first returns dialects with d, one of them, before the others: of two pools of one
// name, who asks in the words of a dialect means that dialect's.
func first(d lb.Dialect, dialects []lb.Dialect) []lb.Dialect {
	if !slices.Contains(dialects, d) || dialects[0] == d {
		return dialects
	}
	return append([]lb.Dialect{d}, slices.DeleteFunc(slices.Clone(dialects), func(o lb.Dialect) bool { return o == d })...)
}

func contradiction(annotation, ours string, theirs metallb.Wish) string {
	return fmt.Sprintf("Annotation %s requests %q, and annotation %s requests %q; remove one of them", annotation, ours, theirs.Annotation, theirs.Value)
}

func sameSet(a, b []netip.Addr) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), netip.Addr.Compare), slices.SortedFunc(slices.Values(b), netip.Addr.Compare))
}

// invalid adds reason to what is wrong with the Service.
func invalid(r *lb.Request, reason lb.Reason) {
	if r.Invalid != nil {
		reason = r.Invalid.And(reason)
	}
	r.Invalid = &reason
}
