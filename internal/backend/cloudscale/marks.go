package cloudscale

import (
	"slices"
	"strconv"
	"time"

	"fairlead.io/internal/backend"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
)

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Speaker = (*Backend)(nil)
	_ backend.Marker  = (*Backend)(nil)
	_ backend.Claims  = (*Backend)(nil)
	_ backend.Needs   = (*Backend)(nil)
	_ backend.Reaper  = (*Backend)(nil)
)

// Words are those of cloudscale's controller.
func (b *Backend) Words() lb.Dialect { return compat.Format }

// Needs nodes, which are members, and other Services, which may ask for the same.
func (b *Backend) Needs() lb.Needs { return lb.Needs{Nodes: true, Peers: true} }

// Claim is what a Service asks for that another may ask for as well.
func (b *Backend) Claim(s *lb.Service) string {
	a := s.Annotations
	if s.Deleting || a[compat.AnnotationFloatingIPs] == "" && a[compat.AnnotationName] == "" && a[compat.AnnotationUUID] == "" {
		return ""
	}
	return a[compat.AnnotationFloatingIPs] + "\n" + a[compat.AnnotationName] + "\n"
}

// Marked says whether s may have a load balancer, or says how it stands with one.
func (b *Backend) Marked(s *lb.Service) bool {
	return s.Says != nil || mayHaveLoadBalancer(s, b.unclassed)
}

// mayHaveLoadBalancer says whether there may be something of s in the cloud: it waits
// for that to go. Others use the same finalizer for their classes, so a Service that
// became another type, and has no class any more, has to say that it was ours, or
// Services without a class are (unclassed).
func mayHaveLoadBalancer(s *lb.Service, unclassed bool) bool {
	if !slices.Contains(s.Finalizers, lb.CleanupFinalizer) {
		return false
	}
	return s.LoadBalancer || ours(s) || unclassed
}

func ours(s *lb.Service) bool {
	_, known := s.Annotations[compat.AnnotationUUID]
	_, versioned := s.Annotations[compat.AnnotationConfigVersion]
	return known || versioned
}

// kept makes s wait, once deleted, for its load balancer to go, before one is made.
// If s became another type meanwhile, its class would be gone with it: so it also
// says that it was ours.
// The time is written down as well: a process that leads next waits for what this one
// may have begun to make.
func (b *Backend) kept(s *lb.Service, now time.Time) lb.Outcome {
	out := lb.Outcome{Keep: true, Marks: lb.Marks{Finalizers: []string{lb.CleanupFinalizer}}}
	if compat.UUID(s) == "" {
		mark := now.UTC().Format(time.RFC3339)
		out.Marks.Annotate(compat.AnnotationCreating, mark)
		b.mu.Lock()
		m := b.memos[s.UID]
		m.mark = mark
		b.memos[s.UID] = m
		b.mu.Unlock()
	}
	if s.Class != "" && !ours(s) {
		out.Marks.Annotate(compat.AnnotationConfigVersion, strconv.Itoa(int(compat.VersionCurrent)))
	}
	return out
}

// never is the outcome for s, which never had a load balancer of ours. Its finalizer
// and its annotations, if it has any, are another controller's.
func never(s *lb.Service) lb.Outcome {
	out := lb.Outcome{Gone: true}
	if !s.Deleting {
		out.Condition = lb.ConditionGoes
	}
	return out
}

// released takes everything of ours off s, whose load balancer is gone.
func released(s *lb.Service) lb.Outcome {
	out := never(s)
	if out.Marks.Removed = []string{lb.CleanupFinalizer}; s.Deleting {
		return out
	}
	for _, name := range []string{compat.AnnotationUUID, compat.AnnotationConfigVersion, compat.AnnotationCreating} {
		out.Marks.Annotate(name, "")
	}
	return out
}
