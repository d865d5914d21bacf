package ovn

import (
	"maps"
	"net/netip"
	"slices"
)

// Names of tables.
const (
	tableLoadBalancer = "Load_Balancer"
	tableGroup        = "Load_Balancer_Group"
	tableRouter       = "Logical_Router"
	tableSwitch       = "Logical_Switch"
	tablePort         = "Logical_Router_Port"
	tableSwitchPort   = "Logical_Switch_Port"
	tablePortGroup    = "Port_Group"
	tableACL          = "ACL"
	tableGlobal       = "NB_Global"
)

// Keys in external_ids that say whose a row is.
const (
	KeyVendor     = "vendor"
	KeyCluster    = "fairlead.io/cluster"
	KeyService    = "fairlead.io/service"     // namespace/name
	KeyServiceUID = "fairlead.io/service-uid" // of the Service object
	Vendor        = "fairlead"
)

// LoadBalancer is a row of the table Load_Balancer.
type LoadBalancer struct {
	UUID, Name, Protocol       string
	VIPs, Options, ExternalIDs map[string]string
	IPPortMappings             map[string]string
	HealthChecks, Selection    []string // health_check and selection_fields, sorted
}

func (l *LoadBalancer) clone() *LoadBalancer {
	c := *l
	c.VIPs, c.Options = maps.Clone(l.VIPs), maps.Clone(l.Options)
	c.ExternalIDs, c.IPPortMappings = maps.Clone(l.ExternalIDs), maps.Clone(l.IPPortMappings)
	c.HealthChecks, c.Selection = slices.Clone(l.HealthChecks), slices.Clone(l.Selection)
	return &c
}

// protocol of the row: none is TCP.
func (l *LoadBalancer) protocol() string {
	if l.Protocol == "" {
		return "tcp"
	}
	return l.Protocol
}

// owner is the Service, as namespace/name, of a row of a cluster; "" if the row is
// somebody else's.
func (l *LoadBalancer) owner(cluster string) string { return ownerOf(l.ExternalIDs, cluster) }

func ownerOf(ids map[string]string, cluster string) string {
	if ids[KeyVendor] != Vendor || ids[KeyCluster] != cluster {
		return ""
	}
	return ids[KeyService]
}

// hasAddress says whether a VIP of the row has an address.
func (l *LoadBalancer) hasAddress(address string) bool {
	for vip := range l.VIPs {
		if vipAddr(vip).String() == address {
			return true
		}
	}
	return false
}

// vipKey is how virtual addresses are compared: an address may be written in several
// ways. What is not one stays as it is.
func vipKey(text string) string {
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()).String()
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap().String()
	}
	return text
}

// vipAddr is the address of a VIP, invalid if it has none.
func vipAddr(text string) netip.Addr {
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return ap.Addr().Unmap()
	}
	a, _ := netip.ParseAddr(text)
	return a.Unmap()
}

// holder is a router or a switch.
type holder struct {
	uuid, name string
	isSwitch   bool
	balancers  map[string]struct{}
	groups     map[string]struct{}
	ports      map[string]struct{} // of a router
	options    map[string]string   // of a router
}

func (h *holder) table() string {
	if h.isSwitch {
		return tableSwitch
	}
	return tableRouter
}

// port is one of a router; sets are its columns that are sets.
type port struct {
	uuid, name string
	sets       map[string]set
	networks   []netip.Prefix // what is not a network is left out
}
