package cloudsigma

import (
	"slices"

	"fairlead.io/internal/backend"
	compat "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

var (
	_ backend.Backend   = (*Backend)(nil)
	_ backend.Speaker   = (*Backend)(nil)
	_ backend.Holder    = (*Backend)(nil)
	_ backend.Marker    = (*Backend)(nil)
	_ backend.Needs     = (*Backend)(nil)
	_ backend.Inventory = (*Backend)(nil)
	_ backend.Importer  = (*Backend)(nil)
	_ backend.Runner    = (*Backend)(nil)
	_ backend.Reaper    = (*Backend)(nil)
)

// Words are those of CloudSigma's controller.
func (b *Backend) Words() lb.Dialect { return compat.Format }

// Needs nodes with their agents, which carry addresses unless pods do; endpoints, for
// policy Local; and other Services, which may share them.
func (b *Backend) Needs() lb.Needs {
	return lb.Needs{Nodes: true, Ready: true, Agents: b.pods == nil, Endpoints: true, Peers: true}
}

// Held is what the status publishes. Our condition names the addresses that were
// written with it; others were written by another controller, for tenants cannot write
// a status.
func (b *Backend) Held(s *lb.Service) lb.Held {
	h := lb.Held{Addresses: s.Published(), Evidence: lb.Reported}
	if h.Current = s.Attested(); h.Current && len(h.Addresses) > 0 {
		h.Evidence, h.Left = lb.Proven, s.Carriers != nil
	}
	return h
}

// Marked says whether s may have addresses, or says how it stands with them.
func (b *Backend) Marked(s *lb.Service) bool {
	return s.Says != nil || s.Carriers != nil || b.mayHave(s)
}

// mayHave says whether there may be something of s in the cloud: it waits for that to
// go. Others use the same finalizer for their classes, so a Service that became another
// type has to say that it was ours, or Services without a class are.
func (b *Backend) mayHave(s *lb.Service) bool {
	return slices.Contains(s.Finalizers, lb.CleanupFinalizer) && (s.LoadBalancer || s.Carriers != nil || s.Says != nil || b.unclassed)
}

// never is the outcome for s, which never had anything in the cloud.
func never(s *lb.Service) lb.Outcome {
	out := lb.Outcome{Gone: true}
	if s.Deleting {
		return out
	}
	out.Condition = lb.ConditionGoes
	if s.Attested() && len(s.Ingress) > 0 {
		out.Ingress = []lb.Ingress{}
	}
	out.Marks.Annotations = native.Dialect{}.Notes(s, &lb.Verdict{}, "")
	return out
}

// released takes everything of ours off s, whose addresses are free.
func released(s *lb.Service) lb.Outcome {
	out := never(s)
	out.Marks.Removed = []string{lb.CleanupFinalizer}
	return out
}
