package lb

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Service is one Service object as a value: all that anybody beyond the API
// server's client reads of it. Maps and slices are shared: do not change them.
type Service struct {
	Key      types.NamespacedName
	UID      types.UID
	Version  string // its resourceVersion
	Created  time.Time
	Deleting bool

	// LoadBalancer says whether that is its type; Class is empty for Services
	// without one.
	LoadBalancer bool
	Class        string

	Annotations, Labels map[string]string
	Finalizers          []string
	LoadBalancerIP      string // spec.loadBalancerIP

	Frontend

	// Ingress is what the status publishes.
	Ingress []Ingress
	// Says is what our condition says, nil if there is none.
	Says *Condition
	// Carriers are the nodes that may carry its addresses; nil where nobody has said.
	Carriers Carriers
	// Unannounced is what our condition about announcing says: nobody answers for one
	// of the addresses. It is nil if there is none, as all is well.
	Unannounced *Condition
}

// Condition is our condition on a Service.
type Condition struct {
	Reason
	True  bool
	Since time.Time
}

// Attested says whether a Fairlead controller, this one or another, wrote the
// addresses in the status: our condition, which is written together with them, says
// that the Service has them.
func (s *Service) Attested() bool {
	if s.Says == nil {
		return false
	}
	words := strings.Fields(s.Says.has())
	for i := range words {
		words[i] = strings.TrimRight(words[i], ".,;")
	}
	for _, a := range s.Published() {
		if !slices.Contains(words, a.String()) {
			return false
		}
	}
	return true
}

// has is the sentence of the condition that says what the Service has. Other sentences
// may name addresses that it only asks for, or quote what is written on it.
func (c *Condition) has() string {
	text := c.Text
	if !c.True {
		at := strings.LastIndex(text, keeps)
		if at < 0 {
			return ""
		}
		text = text[at:]
	}
	sentence, rest, more := strings.Cut(strings.TrimPrefix(text, " "), ". ")
	if more && !c.True && rest != "" {
		return "" // it is not the last one, so it is not ours
	}
	return sentence
}

// Frontend is what clients reach at a Service's addresses, and how it is led to
// pods.
type Frontend struct {
	Families []Family // the primary one first; never empty
	Policy   FamilyPolicy
	Ports    []FrontendPort

	// Local: only nodes with serving pods take the traffic, which keeps the client's
	// address; HealthCheckNodePort tells which they are.
	Local               bool
	HealthCheckNodePort uint16
	Selector            map[string]string
	ClusterIP           string // "" if it has none
	// Affinity is how long a client stays with one pod; 0 is not at all.
	Affinity time.Duration
	// SourceRanges are the networks that may connect, as they are written; empty is
	// everybody.
	SourceRanges []string
}

// FrontendPort is one port of a Service.
type FrontendPort struct {
	Port
	Name       string
	TargetPort string // a number, or the name of a pod's port
	NodePort   uint16 // 0 if it has none
}

// IPMode says whether packets reach the nodes with the address as destination
// (IPModeVIP), or something translates them before (IPModeProxy).
type IPMode string

// The modes that Kubernetes knows.
const (
	IPModeVIP   IPMode = "VIP"
	IPModeProxy IPMode = "Proxy"
)

// Ingress is one entry of a Service's status: an address or a host name.
type Ingress struct {
	IP       string // as it is written, which need not be an address
	Hostname string
	Mode     IPMode
	Ports    bool // it has statuses of ports, which we never write
}

// maxPublished is how many entries of a status count: a longer one is not ours.
const maxPublished = 1024

// Published returns the addresses in the status. Host names and what is not an
// address are left out: nobody can hold them.
func (s *Service) Published() []netip.Addr {
	var out []netip.Addr
	seen := map[netip.Addr]bool{}
	for _, in := range s.Ingress[:min(len(s.Ingress), maxPublished)] {
		if a, err := ParseAddr(in.IP); err == nil && !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	return out
}

// PortList returns protocol and number of each port.
func (f *Frontend) PortList() []Port {
	out := make([]Port, len(f.Ports))
	for i, p := range f.Ports {
		out[i] = p.Port
	}
	return out
}

// Node is one Node object as a value.
type Node struct {
	Name       string
	ProviderID string
	Labels     map[string]string
	Addresses  []netip.Addr
	Ready      bool
	// Receives says whether the node may take the traffic of load balancers: it is
	// not excluded, and not about to be removed. Whether it is Ready is another
	// matter.
	Receives bool
	// Cordoned nodes take no new pods: somebody is about to take them out of service.
	Cordoned bool
	// Agent says whether there is an agent on the node that can announce, and Lost
	// whether other agents say that it has stopped answering. Both are only known to
	// a backend that needs agents.
	Agent, Lost bool
}

// Endpoint is one address at which a pod of a Service serves a port.
type Endpoint struct {
	Address netip.Addr
	Node    string
	// Ready endpoints take new connections; Serving ones that are not Ready are
	// terminating.
	Ready, Serving bool
	// Ports by the name and the protocol of the Service's port.
	Ports map[EndpointPort]uint16
}

// EndpointPort says which port of the Service a port of an endpoint serves.
type EndpointPort struct {
	Name     string
	Protocol string // TCP, UDP or SCTP
}
