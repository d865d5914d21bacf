package cloudsigma

import (
	"cmp"
	"net/netip"

	"fairlead.io/internal/cloudsigma"
	compat "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/prose"
)

// taken says who has an address that no Service of this cluster publishes; "" if
// nobody else does.
func taken(a *account, cluster string, addr netip.Addr) string {
	ip, owned := a.ips[addr]
	others := a.others(addr, cluster)
	switch mine := a.has(addr, compat.ClusterTag(cluster)); {
	case !owned:
		return "the CloudSigma account does not have it"
	case len(others) > 0:
		return "cluster " + prose.And(quoted(others)) + " has it"
	case a.owner(addr) != nil:
		return ownAddress(a.owner(addr))
	case mine:
		if id := a.stranger(addr); id != "" {
			return "server " + prose.Quote(nameOf(a, id)) + " has it"
		}
		// Nothing is attached for a Service before the address has all tags.
		if ip.Server != nil && !a.served(addr) && !a.has(addr, compat.ManagedTag) {
			return "server " + prose.Quote(nameOf(a, ip.Server.UUID)) + " has it"
		}
		return ""
	case a.served(addr):
		return "it has the tag of a Service, and of no cluster"
	case ip.Server != nil:
		return "server " + prose.Quote(nameOf(a, ip.Server.UUID)) + " has it"
	}
	return ""
}

func ownAddress(s *cloudsigma.Server) string {
	return "server " + prose.Quote(cmp.Or(s.Name, s.UUID)) + " has it as its own"
}

func nameOf(a *account, server string) string {
	if s, ok := a.servers[server]; ok && s.Name != "" {
		return s.Name
	}
	return server
}

func quoted(names []string) (out []string) {
	for _, n := range names {
		out = append(out, prose.Quote(n))
	}
	return out
}

// elsewhere says that the account has neither a server of a node nor an address that the
// Service publishes. It may be another account: impersonated users have their own host,
// and on another one they see nothing. What a Service has there must not be forgotten.
func (o *observation) elsewhere() bool {
	if len(o.nodes) == 0 || len(o.account.nodes) > 0 || len(o.desired.Published) == 0 {
		return false
	}
	for addr := range o.desired.Published {
		if _, owned := o.account.ips[addr]; owned {
			return false
		}
	}
	return true
}
