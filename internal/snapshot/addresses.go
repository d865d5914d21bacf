package snapshot

import (
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// Addresses is who has which address: the answer of "kubectl fairlead ip".
type Addresses struct {
	Time      metav1.Time `json:"time"`
	Addresses []Address   `json:"addresses,omitempty"`
	Pools     []PoolState `json:"pools,omitempty"`
	Unknown   []string    `json:"unknown,omitempty"`
}

// Address is one that Services have.
type Address struct {
	Address string `json:"address"`
	// Pool that it is from; empty if it is from none that is known.
	Pool string `json:"pool,omitempty"`
	// EIp of the Service's namespace that has it, where kube-ovn allocates addresses.
	EIp      string   `json:"eip,omitempty"`
	Services []string `json:"services"`
	// Node that announces it on a LAN, and on which interface, by which protocol, since when.
	Node      string       `json:"node,omitempty"`
	Interface string       `json:"interface,omitempty"`
	Protocol  string       `json:"protocol,omitempty"`
	Since     *metav1.Time `json:"since,omitempty"`
	// Router of OVN that answers for it, where no node announces it.
	Router string `json:"router,omitempty"`
	// Nodes that announce it to routers by BGP. If no node announces it on a LAN, the protocol
	// is BGP, and since is when the first of them began.
	Nodes []string `json:"nodes,omitempty"`
	// Reason why nobody announces it.
	Reason string `json:"reason,omitempty"`
	// For is how long it has been announced there.
	For string `json:"for,omitempty"`
}

// Listing says what of all addresses to list.
type Listing struct {
	Pool        string // only of this pool
	Free        bool   // free ranges, too
	ByNamespace bool   // how many each namespace has
}

// freeRanges is how many ranges of a pool are listed at most.
const freeRanges = 100

// Addresses lists addresses.
func (s *Snapshot) Addresses(l Listing) Addresses {
	out := Addresses{Time: metav1.NewTime(s.At), Unknown: s.Unknown}
	if s.Survey == nil {
		return out
	}
	all := map[netip.Addr]*Address{}
	announced := s.announced()
	used := map[lb.PoolKey]map[string]map[netip.Addr]bool{}
	for i := range s.Survey.Services {
		of := &s.Survey.Services[i]
		for _, a := range of.Published() {
			if all[a] == nil {
				all[a] = &Address{Address: a.String(), Reason: string(of.Silences[a.String()].Code)}
			}
			x := all[a]
			x.Services = append(x.Services, of.Key.String())
			for _, p := range s.poolsWith(a) {
				if slices.Contains(of.Verdict.Pools, p.Key) {
					x.Pool = p.Key.String()
					if used[p.Key] == nil {
						used[p.Key] = map[string]map[netip.Addr]bool{}
					}
					if used[p.Key][of.Key.Namespace] == nil {
						used[p.Key][of.Key.Namespace] = map[netip.Addr]bool{}
					}
					used[p.Key][of.Key.Namespace][a] = true
				}
			}
			if b, known := s.bindingOf(of); known && slices.Contains(b.Addresses, a) {
				x.EIp = b.EIp
			}
			if of.Class != nil && of.Class.Backend == config.OVN {
				place, _, _ := s.projects().book.Place(of.Key.Namespace)
				x.Router = place.Router
			}
			if by, ok := announced[a]; ok {
				x.Node, x.Interface, x.Protocol, x.Since, x.For = by.Node, by.Interface, by.Protocol, &by.Since, s.ago(by.Since.Time)
			}
			s.addRoutes(x, a, of.Announced)
		}
	}
	for _, a := range sortedAddrs(all) {
		if l.Pool == "" || all[a].Pool == l.Pool {
			out.Addresses = append(out.Addresses, *all[a])
		}
	}
	quotas := map[lb.PoolKey]int{}
	for i := range s.Survey.Pools {
		quotas[s.Survey.Pools[i].Key] = s.Survey.Pools[i].Quota
	}
	for _, u := range s.Survey.Usage {
		p := poolState(u)
		if l.Pool != "" && l.Pool != p.Name {
			continue
		}
		if l.Free {
			for _, f := range lb.Families {
				for _, r := range s.Survey.Free(u.Key, f, freeRanges) {
					p.Free = append(p.Free, spanText(r.From(), r.To()))
				}
			}
		}
		if l.ByNamespace {
			for namespace, has := range used[u.Key] {
				p.Namespaces = append(p.Namespaces, NamespaceUsed{namespace, len(has), max(0, quotas[u.Key])})
			}
			slices.SortFunc(p.Namespaces, func(a, b NamespaceUsed) int { return strings.Compare(a.Namespace, b.Namespace) })
		}
		out.Pools = append(out.Pools, p)
	}
	return out
}

// addRoutes adds which nodes announce an address by BGP.
func (s *Snapshot) addRoutes(x *Address, a netip.Addr, announced bool) {
	x.Nodes = s.routedNodes(a)
	for _, r := range s.routed()[a] {
		if x.Node == "" && (x.Since == nil || r.Since.Time.Before(x.Since.Time)) {
			since := r.Since
			x.Protocol, x.Since, x.For = protocolBGP, &since, s.ago(since.Time)
		}
	}
	if r, unheard := s.unheard(a); unheard && announced && x.Reason == "" {
		x.Reason = string(r.Code)
	}
}

// Health sums up: addresses that nobody announces are a problem.
func (a Addresses) Health() Health {
	for _, x := range a.Addresses {
		if x.Reason != "" {
			return Problems
		}
	}
	if len(a.Unknown) > 0 {
		return Unknown
	}
	return Healthy
}

func sortedAddrs[T any](m map[netip.Addr]T) []netip.Addr {
	out := make([]netip.Addr, 0, len(m))
	for a := range m {
		out = append(out, a)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

func spanText(from, to netip.Addr) string {
	if from == to {
		return from.String()
	}
	return from.String() + "-" + to.String()
}
