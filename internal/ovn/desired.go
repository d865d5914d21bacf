package ovn

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Protocols of load balancers, in the order of their rows.
var Protocols = []string{"tcp", "udp", "sctp"}

// Service is what one Service is to have in the database.
type Service struct {
	Namespace, Name, UID string

	// Router and Switches are names. Load balancers are attached to both: a router's work
	// for clients outside, a switch's for those inside, and for pods that reach themselves.
	Router   string
	Switches []string
	// Gateway is the name of the router's port to the external network; "" is any port
	// with a gateway chassis.
	Gateway string

	Listeners []Listener // none: nothing of the Service shall be left
	// Restricted says that only Sources may connect from outside. Strict says that
	// nothing is written where that cannot be enforced.
	Restricted, Strict bool
	Sources            []netip.Prefix
	// Affinity is how long a client stays with one backend; 0 is not at all.
	Affinity time.Duration
	// Sole says that the addresses are this router's alone. While a row of another Service of
	// the cluster has one on another router, the Service does not get it: both would answer.
	Sole bool
	// TakeOver are addresses that this Service is known to have from another controller.
	// Rows of that controller with the name of ours, and no other addresses, are taken over.
	TakeOver []netip.Addr
}

// Listener is one port of a Service at one of its addresses.
type Listener struct {
	Protocol string // of Protocols
	VIP      netip.AddrPort
	Backends []netip.AddrPort
}

// Key of the Service: namespace/name.
func (s *Service) Key() string { return s.Namespace + "/" + s.Name }

// maxName is how long the name of a row may be. Kubernetes' longest names do not fit
// together; the hash keeps them apart.
const maxName = 128

// RowName is the name of the load balancer for a protocol. It is for people: two Services
// may have the same.
func (s *Service) RowName(protocol string) string {
	name := s.Namespace + "-" + s.Name
	if most := maxName - len(protocol) - 1; len(name) > most {
		sum := sha256.Sum256([]byte(s.Key()))
		name = name[:most-9] + "-" + hex.EncodeToString(sum[:4])
	}
	return name + "-" + protocol
}

// identity is what external_ids say of the Service's rows.
func (s *Service) identity(cluster string) map[string]string {
	return map[string]string{KeyVendor: Vendor, KeyCluster: cluster, KeyService: s.Key(), KeyServiceUID: s.UID}
}

// maxAffinity is the longest affinity_timeout that OVN has, in seconds.
const maxAffinity = 65535

// options of the row for a protocol.
func (s *Service) options(protocol string) map[string]string {
	// Without backends, clients are refused instead of left waiting.
	out := map[string]string{"reject": "true"}
	if s.Affinity > 0 {
		seconds := int((s.Affinity + time.Second - 1) / time.Second)
		out["affinity_timeout"] = strconv.Itoa(min(seconds, maxAffinity))
	}
	if protocol == "udp" {
		// Clients without connections would stay with a backend that is gone.
		out["ct_flush"] = "true"
	}
	return out
}

// rows are the load balancers of a Service on a router that is connected to these
// networks. Backends outside of them are left out: the router cannot reach them.
func (s *Service) rows(networks []netip.Prefix) (rows []*LoadBalancer, outside []netip.Addr) {
	for _, protocol := range Protocols {
		row := &LoadBalancer{Name: s.RowName(protocol), Protocol: protocol, VIPs: map[string]string{}, Options: s.options(protocol)}
		for _, l := range s.Listeners {
			if l.Protocol != protocol {
				continue
			}
			var backends []string
			for _, b := range l.Backends {
				switch a := b.Addr(); {
				case a.Is4() != l.VIP.Addr().Is4():
				case !within(networks, a):
					outside = append(outside, a)
				default:
					backends = append(backends, b.String())
				}
			}
			row.VIPs[l.VIP.String()] = joined(backends)
		}
		if len(row.VIPs) > 0 {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(outside, netip.Addr.Compare)
	return rows, slices.Compact(outside)
}

func within(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// joined are backends as the value of a VIP: sorted, so that equal ones look equal.
func joined(backends []string) string {
	slices.Sort(backends)
	return strings.Join(slices.Compact(backends), ",")
}

// sameBackends says whether two values of a VIP mean the same.
func sameBackends(a, b string) bool {
	return a == b || joined(strings.Split(a, ",")) == joined(strings.Split(b, ","))
}
