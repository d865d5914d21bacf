package metallb

import (
	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/lb"
)

// Amend adds to r what the annotations of s ask for.
func Amend(r *lb.Request, s *corev1.Service) {}
