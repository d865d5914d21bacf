package cloudscale

import (
	"net/netip"
	"time"

	"fairlead.io/sandbox/simulator"
)

// What all simulated clouds have, under the names that users of this one need.
type (
	// Kind is a kind of object of the API, as its path names it.
	Kind = simulator.Kind
	// Fault is something that goes wrong with requests.
	Fault = simulator.Fault
	// Request is one request in the log.
	Request = simulator.Request
	// Call is what requests are counted by.
	Call = simulator.Call
)

// The kinds.
const (
	Servers        Kind = "servers"
	Networks       Kind = "networks"
	Subnets        Kind = "subnets"
	LoadBalancers  Kind = "load-balancers"
	Pools          Kind = "pools"
	Members        Kind = "members"
	Listeners      Kind = "listeners"
	HealthMonitors Kind = "health-monitors"
	FloatingIPs    Kind = "floating-ips"
	Flavors        Kind = "flavors"
	Regions        Kind = "regions"
)

// The objects as the simulator keeps them. Other objects are referred to by
// UUID; what the API shows in their place is in view.go. The names of fields
// are those of the API, for [Simulator.Edit].

// Network is a private network of one zone.
type Network struct {
	UUID    string            `json:"uuid"`
	Name    string            `json:"name"`
	Zone    string            `json:"zone"`
	MTU     int               `json:"mtu"`
	Tags    map[string]string `json:"tags"`
	Created time.Time         `json:"created_at"`
}

// Subnet is a subnet of a network.
type Subnet struct {
	UUID       string            `json:"uuid"`
	Network    string            `json:"network"`
	CIDR       netip.Prefix      `json:"cidr"`
	Gateway    netip.Addr        `json:"gateway_address"`
	DNSServers []string          `json:"dns_servers"`
	Tags       map[string]string `json:"tags"`
	Created    time.Time         `json:"created_at"`
}

// Server is a virtual machine.
type Server struct {
	UUID       string            `json:"uuid"`
	Name       string            `json:"name"`
	Zone       string            `json:"zone"`
	Flavor     string            `json:"flavor"` // a slug of /v1/flavors; default flex-4-2
	Status     string            `json:"status"` // running, stopped or changing; default running
	Interfaces []Interface       `json:"interfaces"`
	Tags       map[string]string `json:"tags"`
	Created    time.Time         `json:"created_at"`

	settled string // status after the time below
	changed time.Time
}

// Interface is a network card of a server: a public one, which has no Network,
// or one in a private network.
type Interface struct {
	Network   string    `json:"network"`
	Addresses []Address `json:"addresses"`
}

// Address is an address of a server. One in a network without subnets has
// no Subnet.
type Address struct {
	Address netip.Addr `json:"address"`
	Subnet  string     `json:"subnet"`
}

// LoadBalancer is a load balancer without what belongs to it.
type LoadBalancer struct {
	UUID    string            `json:"uuid"`
	Name    string            `json:"name"`
	Zone    string            `json:"zone"`
	Flavor  string            `json:"flavor"`
	Status  string            `json:"status"` // only in what LoadBalancers returns
	VIPs    []Address         `json:"vip_addresses"`
	Tags    map[string]string `json:"tags"`
	Created time.Time         `json:"created_at"`

	private   bool // its VIP is in a private subnet
	built     time.Time
	busyUntil time.Time
}

// Pool is a pool of members.
type Pool struct {
	UUID         string            `json:"uuid"`
	Name         string            `json:"name"`
	LoadBalancer string            `json:"load_balancer"`
	Algorithm    string            `json:"algorithm"`
	Protocol     string            `json:"protocol"`
	Tags         map[string]string `json:"tags"`
	Created      time.Time         `json:"created_at"`
}

// Member is a member of a pool.
type Member struct {
	UUID          string            `json:"uuid"`
	Name          string            `json:"name"`
	Pool          string            `json:"pool"`
	Enabled       bool              `json:"enabled"`
	ProtocolPort  int               `json:"protocol_port"`
	MonitorPort   int               `json:"monitor_port"` // 0: none of its own
	Address       netip.Addr        `json:"address"`
	Subnet        string            `json:"subnet"`
	MonitorStatus string            `json:"monitor_status"` // only in what Members returns
	Tags          map[string]string `json:"tags"`
	Created       time.Time         `json:"created_at"`

	health health
}

// Listener is a port of a load balancer. Pool is empty if the pool was deleted
// and the listener was not.
type Listener struct {
	UUID                   string            `json:"uuid"`
	Name                   string            `json:"name"`
	Pool                   string            `json:"pool"`
	LoadBalancer           string            `json:"load_balancer"`
	Protocol               string            `json:"protocol"`
	ProtocolPort           int               `json:"protocol_port"`
	AllowedCIDRs           []netip.Prefix    `json:"allowed_cidrs"`
	TimeoutClientDataMS    int               `json:"timeout_client_data_ms"`
	TimeoutMemberConnectMS int               `json:"timeout_member_connect_ms"`
	TimeoutMemberDataMS    int               `json:"timeout_member_data_ms"`
	Tags                   map[string]string `json:"tags"`
	Created                time.Time         `json:"created_at"`
}

// HealthMonitor says how the members of a pool are checked.
type HealthMonitor struct {
	UUID          string            `json:"uuid"`
	Pool          string            `json:"pool"`
	Type          string            `json:"type"`
	DelayS        int               `json:"delay_s"`
	TimeoutS      int               `json:"timeout_s"`
	UpThreshold   int               `json:"up_threshold"`
	DownThreshold int               `json:"down_threshold"`
	HTTP          *HTTPCheck        `json:"http"` // of http and https only
	Tags          map[string]string `json:"tags"`
	Created       time.Time         `json:"created_at"`
}

// HTTPCheck is what is asked, and what is a good answer.
type HTTPCheck struct {
	ExpectedCodes []string `json:"expected_codes"` // codes, or one range like 200-204
	Method        string   `json:"method"`
	URLPath       string   `json:"url_path"`
	Version       string   `json:"version"`
	Host          *string  `json:"host"`
}

// FloatingIP is an address, or an IPv6 prefix, that can be moved. It is known
// by its address, without prefix length. At most one of Server and
// LoadBalancer is set.
type FloatingIP struct {
	Prefix       netip.Prefix      `json:"network"`
	Region       string            `json:"region"` // empty: global
	Server       string            `json:"server"`
	LoadBalancer string            `json:"load_balancer"`
	ReversePTR   string            `json:"reverse_ptr"`
	Tags         map[string]string `json:"tags"`
	Created      time.Time         `json:"created_at"`
}

// places of the cloud.
var (
	regions = []region{{"lpg", []string{"lpg1"}}, {"rma", []string{"rma1"}}}
	zones   = []string{"lpg1", "rma1"}

	serverFlavors = []flavor{
		{"flex-4-1", "Flex-4-1", 1, 4}, {"flex-4-2", "Flex-4-2", 2, 4}, {"flex-4-4", "Flex-4-4", 4, 4}, {"flex-8-2", "Flex-8-2", 2, 8},
		{"flex-8-4", "Flex-8-4", 4, 8}, {"flex-16-4", "Flex-16-4", 4, 16}, {"plus-8-2", "Plus-8-2", 2, 8},
		{"plus-16-4", "Plus-16-4", 4, 16}, {"plus-32-16", "Plus-32-16", 16, 32},
	}
	lbFlavors = map[string]string{"lb-standard": "LB-Standard"}
)

type region struct {
	slug  string
	zones []string
}

type flavor struct {
	slug, name  string
	vcpus, gigs int
}

func regionOf(zone string) string {
	for _, r := range regions {
		for _, z := range r.zones {
			if z == zone {
				return r.slug
			}
		}
	}
	return ""
}

func flavorOf(slug string) (flavor, bool) {
	for _, f := range serverFlavors {
		if f.slug == slug {
			return f, true
		}
	}
	return flavor{}, false
}
