package kubevip

import (
	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// voice tells events in the words that those know who look after Services in a
// cloud.
type voice struct{}

// Voice is that of cloud controllers, as kube-vip's cloud provider is one.
func (Dialect) Voice() compat.Voice { return voice{} }

func (voice) Alone() bool { return false }

func (voice) Event(reason lb.Reason, _ *lb.Request, _ *lb.Verdict) compat.Event {
	out := compat.Event{Reason: string(reason.Code), Message: reason.Text}
	if lb.Reasons[reason.Code].On == "Service" {
		out.Reason = word(reason)
	}
	return out
}

func word(r lb.Reason) string {
	switch {
	case r.Code == lb.AddressInUse || r.Code == lb.SharingConflict:
		return "IPConflict"
	case r.Code == lb.AddressReleased:
		return "DeletedLoadBalancer"
	case r.Ready():
		return "EnsuredLoadBalancer"
	case r.Code == lb.WaitingForLease:
		return "EnsuringLoadBalancer"
	case lb.Reasons[r.Code].Event:
		return string(r.Code)
	}
	return "SyncLoadBalancerFailed"
}
