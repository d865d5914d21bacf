package lb

import (
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Held is what a Service is known to have, and how well that is known.
type Held struct {
	Addresses []netip.Addr
	Evidence  Evidence
	Noted     time.Time // as Request has it
	// Current says that a Fairlead controller wrote it, this one or another: it is
	// believed also after first sight. Anything else may be an edit by hand.
	Current bool
	// Left says that the backend assigned it. It stays reserved while the Service
	// exists, even if its class is not served any more.
	Left bool
	// Says is the reason on the Service where it is not in our condition; nil if it
	// is there, or nowhere.
	Says *Reason
}

// Want is what one Service asks of its backend.
type Want struct {
	Service Service
	// Gone: nothing of the Service shall be left. It is being deleted, or is not
	// this backend's any more.
	Gone bool
	// Known says of a Service that is Gone, but not being deleted, that it was
	// served since the controller started. What is on others may be somebody else's.
	Known bool
	// DryRun: only tell what would be done.
	DryRun bool

	// Request and Verdict are what was asked of pools and settled, where the class
	// has any.
	Request Request
	Verdict Verdict
	// Unannounced is why nobody answers for one of the addresses, with Needs.Agents; nil
	// if all is well, as far as agents report.
	Unannounced *Reason
	// Carrier is the node that announces the first address, as far as agents report
	// that; "" if none does.
	Carrier string

	// What a backend gets only if it says that it needs it.
	Nodes     []Node
	Endpoints []Endpoint
	Peers     []Service // all Services of its classes, this one too, sorted by name
	// Lives returns the Service with that UID, of any type and class and be it about
	// to be deleted, if there is one; with Peers.
	Lives func(types.UID) (types.NamespacedName, bool)
}

// Outcome is what one look at a Service has led to.
type Outcome struct {
	// Reason is how the Service stands; without a code there is nothing to say.
	Reason Reason
	// Passing: Reason is temporary. It is not written on the Service, and gets an
	// event only if no event has reported yet what is under way.
	Passing bool
	// Tell has further reasons to report by events. A reason that still holds is in
	// it at every look, with the same text.
	Tell []Reason

	// Ingress to be published; nil leaves the status alone, empty clears it.
	Ingress []Ingress
	// Condition is what becomes of our condition.
	Condition ConditionChange
	// Carriers are the nodes that may carry the addresses; nil leaves what the Service
	// says, empty removes it.
	Carriers Carriers
	// Unannounced is what our condition about announcing says. Nil removes that
	// condition, unless Condition stays.
	Unannounced *Reason
	// Marks to be changed.
	Marks Marks
	// Keep: Marks must be on the Service before anything is done outside; then Sync
	// is called again.
	Keep bool
	// Owns names what the backend writes and somebody else has overwritten if it has
	// to be written again ("status (192.0.2.1 instead of 192.0.2.7)"). Empty: that
	// is of no concern.
	Owns string

	// Plan that was made, and how many of its steps were done.
	Plan Plan
	Done int

	// Gone: nothing is left outside.
	Gone bool
	// Yields: somebody else has an address that was settled, and the Service has not
	// had it yet. Pools are read again, and the Service gets another one, unless it
	// asked for that one by name.
	Yields bool
	// Again is when to look again; 0: when something has changed.
	Again time.Duration
}

// ConditionChange is what becomes of our condition on a Service.
type ConditionChange uint8

// What can become of it.
const (
	ConditionStays ConditionChange = iota
	ConditionSays                  // it says Reason
	ConditionGoes
)

// CleanupFinalizer keeps a Service until its backend has removed what it made for it.
// All cloud controller managers use this name.
const CleanupFinalizer = "service.kubernetes.io/load-balancer-cleanup"

// Marks are changes of what is written on a Service besides its status.
type Marks struct {
	// Annotations and Labels to be set; "" removes one.
	Annotations, Labels map[string]string
	// Finalizers to be added and removed.
	Finalizers, Removed []string
	// LoadBalancerIP, if not nil, is the new spec.loadBalancerIP; "" removes it.
	LoadBalancerIP *string
}

// Annotate sets an annotation; "" removes it.
func (m *Marks) Annotate(key, value string) {
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[key] = value
}

// Label sets a label; "" removes it.
func (m *Marks) Label(key, value string) {
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	m.Labels[key] = value
}

// Orphan is something that a backend has made for a Service that no longer exists.
type Orphan struct {
	ID      string // unique in the backend
	Service types.NamespacedName
	UID     types.UID // of the Service; "" if only its name is known
	// Names are further ones that the Service may have had, where the name is not
	// certain either.
	Names  []types.NamespacedName
	Reason Reason // how it is reported
}

// Exists says whether there is a Service with that UID, of any type and class; without
// UID, one of that name.
type Exists func(name types.NamespacedName, uid types.UID) bool

// Lives says whether the Service exists after all.
func (o *Orphan) Lives(exists Exists) bool {
	return exists(o.Service, o.UID) || slices.ContainsFunc(o.Names, func(name types.NamespacedName) bool { return exists(name, "") })
}

// Object names an object of the API server.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	UID                               types.UID
}

// Warning is what there is to say about an object that somebody has configured.
type Warning struct {
	About  Object
	Reason Reason
}

// Needs are the parts of a Want that a backend reads. Others are not watched. With
// Agents, nodes say what is known of their agents. With Agents or Ready, whether they are
// Ready is watched as well.
type Needs struct{ Nodes, Ready, Agents, Endpoints, Peers bool }
