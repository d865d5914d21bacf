package cloudscale

import (
	"net/netip"
	"time"
)

// Ref is an object as it is named inside another one.
type Ref struct {
	UUID string `json:"uuid"`
	Name string `json:"name,omitempty"`
}

// Slug is a zone, a region or a flavor.
type Slug struct {
	Slug string `json:"slug"`
}

// SubnetRef is a subnet as it is named inside an address. Addresses in networks
// without a subnet have an empty one.
type SubnetRef struct {
	UUID string       `json:"uuid"`
	CIDR netip.Prefix `json:"cidr"`
}

// Tags of an object: what made it, and for whom.
type Tags map[string]string

// States of load balancers and servers. There may be others.
const (
	Changing = "changing"
	Running  = "running"
	Stopped  = "stopped"  // servers
	Degraded = "degraded" // load balancers: some members are down
	Failed   = "error"    // load balancers: all members are down, or there are none
)

// LoadBalancer has its addresses from the moment it is created.
type LoadBalancer struct {
	UUID         string       `json:"uuid"`
	Name         string       `json:"name"`
	Status       string       `json:"status"`
	Zone         Slug         `json:"zone"`
	Flavor       Slug         `json:"flavor"`
	VIPAddresses []VIPAddress `json:"vip_addresses"`
	CreatedAt    time.Time    `json:"created_at"`
	Tags         Tags         `json:"tags"`
}

// VIPAddress is an address at which a load balancer is reached. A public one has
// two, IPv4 first.
type VIPAddress struct {
	Version int        `json:"version"`
	Address netip.Addr `json:"address"`
	Subnet  SubnetRef  `json:"subnet"`
}

// NewLoadBalancer is what is asked for. Without VIPAddresses it is public,
// without a zone in the project's default one.
type NewLoadBalancer struct {
	Name         string          `json:"name"`
	Flavor       string          `json:"flavor"`
	Zone         string          `json:"zone,omitempty"`
	VIPAddresses []NewVIPAddress `json:"vip_addresses,omitempty"`
	Tags         Tags            `json:"tags,omitempty"`
}

// NewVIPAddress is an address in a private subnet: any, unless one is given.
type NewVIPAddress struct {
	Subnet  string     `json:"subnet"`
	Address netip.Addr `json:"address,omitzero"`
}

// LoadBalancerPatch is all of a load balancer that can be changed.
type LoadBalancerPatch struct {
	Name *string `json:"name,omitempty"`
	Tags *Tags   `json:"tags,omitempty"`
}

// Pool of members that serve the same.
type Pool struct {
	UUID         string `json:"uuid"`
	Name         string `json:"name"`
	LoadBalancer Ref    `json:"load_balancer"`
	Algorithm    string `json:"algorithm"` // round_robin, least_connections, source_ip
	Protocol     string `json:"protocol"`  // tcp, proxy, proxyv2, udp
	Tags         Tags   `json:"tags"`
}

// NewPool is what is asked for; LoadBalancer is a UUID.
type NewPool struct {
	Name         string `json:"name"`
	LoadBalancer string `json:"load_balancer"`
	Algorithm    string `json:"algorithm"`
	Protocol     string `json:"protocol"`
	Tags         Tags   `json:"tags,omitempty"`
}

// PoolPatch is all of a pool that can be changed.
type PoolPatch struct {
	Name *string `json:"name,omitempty"`
	Tags *Tags   `json:"tags,omitempty"`
}

// Member of a pool: one port at one address.
type Member struct {
	UUID          string     `json:"uuid"`
	Name          string     `json:"name"`
	Enabled       bool       `json:"enabled"`
	Pool          Ref        `json:"pool"`
	LoadBalancer  Ref        `json:"load_balancer"`
	ProtocolPort  int        `json:"protocol_port"`
	MonitorPort   int        `json:"monitor_port"` // 0: ProtocolPort
	Address       netip.Addr `json:"address"`
	Subnet        SubnetRef  `json:"subnet"`
	MonitorStatus string     `json:"monitor_status"` // up, down, changing, no_monitor, unknown
	CreatedAt     time.Time  `json:"created_at"`
	Tags          Tags       `json:"tags"`
}

// NewMember is what is asked for; Subnet is a UUID. It is enabled unless
// Enabled says otherwise.
type NewMember struct {
	Name         string     `json:"name"`
	Enabled      *bool      `json:"enabled,omitempty"`
	ProtocolPort int        `json:"protocol_port"`
	MonitorPort  int        `json:"monitor_port,omitempty"`
	Address      netip.Addr `json:"address"`
	Subnet       string     `json:"subnet"`
	Tags         Tags       `json:"tags,omitempty"`
}

// MemberPatch is all of a member that can be changed. One that is no longer
// enabled gets no new connections, and keeps those that it has.
type MemberPatch struct {
	Name    *string `json:"name,omitempty"`
	Enabled *bool   `json:"enabled,omitempty"`
	Tags    *Tags   `json:"tags,omitempty"`
}

// Listener is a port of a load balancer.
type Listener struct {
	UUID                   string         `json:"uuid"`
	Name                   string         `json:"name"`
	Pool                   *Ref           `json:"pool"` // nil: its pool was deleted
	LoadBalancer           Ref            `json:"load_balancer"`
	Protocol               string         `json:"protocol"` // tcp, udp
	ProtocolPort           int            `json:"protocol_port"`
	AllowedCIDRs           []netip.Prefix `json:"allowed_cidrs"` // none: everybody
	TimeoutClientDataMS    int            `json:"timeout_client_data_ms"`
	TimeoutMemberConnectMS int            `json:"timeout_member_connect_ms"`
	TimeoutMemberDataMS    int            `json:"timeout_member_data_ms"`
	Tags                   Tags           `json:"tags"`
}

// NewListener is what is asked for; Pool is a UUID. What is 0 has the cloud's
// default.
type NewListener struct {
	Name                   string         `json:"name"`
	Pool                   string         `json:"pool"`
	Protocol               string         `json:"protocol"`
	ProtocolPort           int            `json:"protocol_port"`
	AllowedCIDRs           []netip.Prefix `json:"allowed_cidrs,omitempty"`
	TimeoutClientDataMS    int            `json:"timeout_client_data_ms,omitempty"`
	TimeoutMemberConnectMS int            `json:"timeout_member_connect_ms,omitempty"`
	TimeoutMemberDataMS    int            `json:"timeout_member_data_ms,omitempty"`
	Tags                   Tags           `json:"tags,omitempty"`
}

// ListenerPatch is what of a listener is changed in place.
type ListenerPatch struct {
	Name                   *string `json:"name,omitempty"`
	AllowedCIDRs           *CIDRs  `json:"allowed_cidrs,omitempty"`
	TimeoutClientDataMS    *int    `json:"timeout_client_data_ms,omitempty"`
	TimeoutMemberConnectMS *int    `json:"timeout_member_connect_ms,omitempty"`
	TimeoutMemberDataMS    *int    `json:"timeout_member_data_ms,omitempty"`
	Tags                   *Tags   `json:"tags,omitempty"`
}

// HealthMonitor of a pool, which has at most one.
type HealthMonitor struct {
	UUID          string     `json:"uuid"`
	Pool          Ref        `json:"pool"`
	LoadBalancer  Ref        `json:"load_balancer"`
	Type          string     `json:"type"` // ping, tcp, http, https, tls-hello, udp-connect
	DelayS        int        `json:"delay_s"`
	TimeoutS      int        `json:"timeout_s"`
	UpThreshold   int        `json:"up_threshold"`
	DownThreshold int        `json:"down_threshold"`
	HTTP          *HTTPCheck `json:"http"` // types http and https
	Tags          Tags       `json:"tags"`
}

// HTTPCheck is what a monitor of type http or https asks for and expects. What
// is empty has the cloud's default.
type HTTPCheck struct {
	ExpectedCodes []string `json:"expected_codes,omitempty"` // "200", or one range "200-204"
	Method        string   `json:"method,omitempty"`
	URLPath       string   `json:"url_path,omitempty"`
	Version       string   `json:"version,omitempty"` // 1.0 or 1.1
	Host          *string  `json:"host,omitempty"`    // not with 1.0
}

// NewHealthMonitor is what is asked for; Pool is a UUID. What is 0 has the
// cloud's default.
type NewHealthMonitor struct {
	Pool          string     `json:"pool"`
	Type          string     `json:"type"`
	DelayS        int        `json:"delay_s,omitempty"`
	TimeoutS      int        `json:"timeout_s,omitempty"`
	UpThreshold   int        `json:"up_threshold,omitempty"`
	DownThreshold int        `json:"down_threshold,omitempty"`
	HTTP          *HTTPCheck `json:"http,omitempty"`
	Tags          Tags       `json:"tags,omitempty"`
}

// HealthMonitorPatch is all of a monitor that can be changed.
type HealthMonitorPatch struct {
	DelayS        *int            `json:"delay_s,omitempty"`
	TimeoutS      *int            `json:"timeout_s,omitempty"`
	UpThreshold   *int            `json:"up_threshold,omitempty"`
	DownThreshold *int            `json:"down_threshold,omitempty"`
	HTTP          *HTTPCheckPatch `json:"http,omitempty"`
	Tags          *Tags           `json:"tags,omitempty"`
}

// HTTPCheckPatch has all that can be changed, and all of it is written: no host
// means that no host is sent any more.
type HTTPCheckPatch struct {
	ExpectedCodes []string `json:"expected_codes"`
	Method        string   `json:"method"`
	URLPath       string   `json:"url_path"`
	Host          *string  `json:"host"`
}

// FloatingIP is an address, or a network of IPv6, that can be moved between load
// balancers and servers of its region, or of all regions if it has none.
type FloatingIP struct {
	Network      netip.Prefix `json:"network"`
	LoadBalancer *Ref         `json:"load_balancer"`
	Server       *Ref         `json:"server"`
	Region       *Slug        `json:"region"`
	Tags         Tags         `json:"tags"`
}

// Server is a virtual machine.
type Server struct {
	UUID       string      `json:"uuid"`
	Name       string      `json:"name"`
	Status     string      `json:"status"`
	Zone       Slug        `json:"zone"`
	Flavor     Slug        `json:"flavor"`
	Interfaces []Interface `json:"interfaces"`
}

// Interface of a server.
type Interface struct {
	Type      string             `json:"type"` // public or private
	Addresses []InterfaceAddress `json:"addresses"`
}

// Public is the type of the interfaces that can be reached from everywhere.
const Public = "public"

// InterfaceAddress is an address of a server.
type InterfaceAddress struct {
	Address netip.Addr `json:"address"`
	Subnet  SubnetRef  `json:"subnet"`
}

// Subnet of a private network.
type Subnet struct {
	UUID string       `json:"uuid"`
	CIDR netip.Prefix `json:"cidr"`
}

// CIDRs are written as a list also if there are none.
type CIDRs []netip.Prefix
