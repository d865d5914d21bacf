// Package cloud has the names of events that all cloud controller managers use. It
// knows no cloud.
package cloud

import "fairlead.io/internal/lb"

// EventName is the reason of the event on a Service for r. Cloud controller managers
// have one name for everything that keeps a load balancer from being as requested.
func EventName(r lb.Reason) string {
	if r.Warning() && !r.EventOnly() {
		return string(lb.SyncLoadBalancerFailed)
	}
	return string(r.Code)
}
