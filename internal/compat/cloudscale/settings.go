package cloudscale

import (
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/internal/lb"
)

// Version is by which rules a Service is read, see AnnotationConfigVersion.
type Version int

// The versions; 0 means that the Service does not say.
const (
	VersionUpstream Version = 1
	VersionCurrent  Version = 2
)

// Settings are what a Service asks for.
type Settings struct {
	Name        string
	Flavor      string
	Zone        string // empty: that of the nodes
	VIPs        []VIP  // none: public addresses
	FloatingIPs []netip.Prefix

	// Hostname, if not empty, is published instead of addresses.
	Hostname string
	IPMode   lb.IPMode
	// PublishFloatingIPs instead of the load balancer's own addresses.
	PublishFloatingIPs bool

	NodeSelector   labels.Selector
	AllowedSubnets []string // UUIDs; none: all
	Ports          []Port
}

// VIP is an address of a private load balancer.
type VIP struct {
	Subnet  string     // UUID
	Address netip.Addr // invalid: any
}

// Port is one port of the Service, and what the load balancer has for it.
type Port struct {
	Pool         string // its name, by which it is found again: tcp/http
	Algorithm    string
	PoolProtocol string

	Listener        string // its name: tcp/80
	Protocol        string // tcp or udp
	Number          int
	AllowedCIDRs    []netip.Prefix // none: everybody
	ClientDataMS    int
	MemberConnectMS int
	MemberDataMS    int

	NodePort    int
	MonitorPort int
	Monitor     Monitor
}

// Monitor is how the members of a port are checked.
type Monitor struct {
	Type          string
	DelayS        int
	TimeoutS      int
	UpThreshold   int
	DownThreshold int
	HTTP          *HTTP // types http and https
}

// HTTP is what a monitor asks for.
type HTTP struct {
	ExpectedCodes []string `json:"expected_codes"`
	Method        string   `json:"method"`
	URLPath       string   `json:"url_path"`
	Version       string   `json:"version"`
	Host          *string  `json:"host"`
}

// usesHTTP says whether monitors of this type ask for something.
func usesHTTP(monitorType string) bool { return monitorType == "http" || monitorType == "https" }

// UUID of the Service's load balancer as it was written down, or nothing.
func UUID(s *lb.Service) string { return s.Annotations[AnnotationUUID] }

// Name of the Service's load balancer.
func Name(s *lb.Service) string {
	if name, ok := s.Annotations[AnnotationName]; ok {
		return name
	}
	return DefaultName(s)
}

// DefaultName of a Service's load balancer is unique to the Service.
func DefaultName(s *lb.Service) string { return "k8s-service-" + string(s.UID) }

// ConfigVersion that the Service asks for; 0 if it does not say.
func ConfigVersion(s *lb.Service) Version {
	switch s.Annotations[AnnotationConfigVersion] {
	case "1":
		return VersionUpstream
	case "2":
		return VersionCurrent
	default:
		return 0
	}
}

// poolName is upstream's: any other would replace all pools.
func poolName(protocol, portName string) string {
	name := strings.ToLower(protocol)
	if portName != "" {
		name += "/" + portName
	}
	return name
}
