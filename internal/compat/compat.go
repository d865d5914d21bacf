// Package compat reads Services in all dialects that their class may use.
package compat

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

// Request translates s, a Service of type LoadBalancer whose class may use the
// pools of dialects. What cannot be understood is said in Request.Invalid.
func Request(s *corev1.Service, namespaceLabels map[string]string, dialects []lb.Dialect) lb.Request {
	r := native.Request(s, namespaceLabels, dialects)
	r.Voice = lb.Native
	if len(dialects) > 0 {
		r.Voice = dialects[0]
	}
	if slices.Contains(dialects, lb.MetalLB) {
		metallb.Amend(&r, s)
	}
	return r
}
