package snapshot

import (
	"fmt"
	"net/netip"
	"slices"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// State of a Service.
type State string

// All states. A Service that no class serves is NotServed: nobody here looks after it.
// Missing and Unsure are of Services that do not exist, or that may not be read. Unattended
// Services are as they should be, but no controller would notice a change.
const (
	OK          State = "ok"
	Waiting     State = "waiting"
	Unreachable State = "unreachable"
	NotServed   State = "not served"
	Missing     State = "missing"
	Unsure      State = "unknown"
	Unattended  State = "unattended"
)

// ServiceState says how a Service stands.
type ServiceState struct {
	Service string `json:"service"`
	State   State  `json:"state"`
	// Addresses that it publishes.
	Addresses []string `json:"addresses,omitempty"`
	// Reason and Message say why it is not ok, or not known.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// stateOf says how a Service stands: what the controller has written, and where it has
// written nothing what it would write.
func (s *Snapshot) stateOf(of *controller.Surveyed) ServiceState {
	out := ServiceState{Service: of.Key.String(), State: OK, Addresses: prose.Texts(of.Published())}
	for _, in := range of.Ingress {
		if in.Hostname != "" {
			out.Addresses = append(out.Addresses, in.Hostname)
		}
	}
	say := func(state State, r lb.Reason) { out.State, out.Reason, out.Message = state, string(r.Code), r.Text }
	var unheard lb.Reason
	undecided := s.undecided(of)
	unsure := func() { out.State, out.Message = Unsure, "unknown: "+undecided }
	switch {
	case (of.Class == nil || of.Ignored != "") && s.Install.Assumed != "":
		out.State, out.Message = Unsure, "unknown: "+s.Install.Assumed
	case of.Class == nil || of.Ignored != "":
		out.State = NotServed
	case len(out.Addresses) == 0 && undecided != "":
		unsure()
	case len(out.Addresses) == 0:
		say(Waiting, s.reasonOf(of))
	case of.Unannounced != nil:
		say(Unreachable, of.Unannounced.Reason)
	case len(of.Silences) > 0:
		for _, a := range out.Addresses {
			if r, is := of.Silences[a]; is {
				say(Unreachable, r)
				break
			}
		}
	case of.Announced && s.unheardOf(of, &unheard):
		say(Unreachable, unheard)
	case undecided != "":
		unsure()
	case of.Says != nil && !of.Says.True || of.Settled && of.Says == nil && !of.Verdict.Reason.Ready():
		say(Waiting, s.reasonOf(of))
	}
	return out
}

// unheardOf says whether no router hears of an address of the Service, which is announced by BGP
// alone, and why.
func (s *Snapshot) unheardOf(of *controller.Surveyed, why *lb.Reason) bool {
	for _, a := range of.Published() {
		if r, unheard := s.unheard(a); unheard {
			*why = r
			return true
		}
	}
	return false
}

// reasonOf is why a Service does not have what it asks for: what its condition says, or
// else what would be decided.
func (s *Snapshot) reasonOf(of *controller.Surveyed) lb.Reason {
	switch {
	case of.Says != nil:
		return of.Says.Reason
	case of.Settled && !of.Verdict.Reason.Ready():
		return of.Verdict.Reason
	}
	if of.Settled && of.Class != nil && of.Class.Backend == config.OVN {
		if step := s.stepProject(of); step.Mark == Failed {
			return lb.Rebuilt(lb.Code(step.Reason), step.Fact, false)
		}
	}
	if b, known := s.bindingOf(of); known && b.Reason != nil {
		return *b.Reason
	}
	return lb.Reason{Text: "Nothing is written on the Service."}
}

// PoolState is how full a pool is.
type PoolState struct {
	Name string `json:"name"`
	// Format is the configuration format in which the pool is written.
	Format   string       `json:"format"`
	Families []FamilyUsed `json:"families,omitempty"`
	Ready    bool         `json:"ready"`
	Reason   string       `json:"reason,omitempty"`
	Message  string       `json:"message,omitempty"`
	// Free ranges, with ip --free.
	Free []string `json:"free,omitempty"`
	// Namespaces that have addresses of the pool, with ip --by-namespace.
	Namespaces []NamespaceUsed `json:"namespaces,omitempty"`
}

// FamilyUsed counts addresses of one IP family. Numbers above 2⁶³ are that.
type FamilyUsed struct {
	Family string `json:"family"`
	Used   int    `json:"used"`
	Free   int64  `json:"free"`
	Total  int64  `json:"total"`
}

// NamespaceUsed counts the addresses of a pool that a namespace has.
type NamespaceUsed struct {
	Namespace string `json:"namespace"`
	Used      int    `json:"used"`
	// Quota is how many it may have; 0 is no limit.
	Quota int `json:"quota,omitempty"`
}

// pools says how full all pools are.
func (s *Snapshot) pools() (out []PoolState) {
	for _, u := range s.Survey.Usage {
		out = append(out, poolState(u))
	}
	return out
}

func poolState(u ipam.PoolUsage) PoolState {
	p := PoolState{Name: u.Key.String(), Format: string(u.Key.Dialect), Ready: u.Reason.Ready(), Reason: string(u.Reason.Code)}
	if !p.Ready {
		p.Message = u.Reason.Text
	}
	for _, f := range lb.Families {
		if n := u.Families[f]; n.Total > 0 || n.Used > 0 {
			p.Families = append(p.Families, FamilyUsed{Family: f.String(), Used: n.Used, Free: n.Free, Total: n.Total})
		}
	}
	return p
}

// fullness is how full a pool is, in words.
func (p PoolState) fullness() string {
	var parts []string
	for _, f := range p.Families {
		parts = append(parts, fmt.Sprintf("%s: %s used, %s free", f.Family, of(int64(f.Used), f.Total), count(f.Free)))
	}
	if len(p.Families) == 1 {
		f := p.Families[0]
		return fmt.Sprintf("%s used, %s free", of(int64(f.Used), f.Total), count(f.Free))
	}
	return prose.And(parts)
}

func of(used, total int64) string { return fmt.Sprintf("%d of %s", used, count(total)) }

// count is a number of addresses; the largest stands for all that are larger.
func count(n int64) string {
	if n > 1<<32 {
		return "more than 4 billion"
	}
	return fmt.Sprint(n)
}

// pool returns how full the pool of that name is.
func (s *Snapshot) pool(key lb.PoolKey) (PoolState, bool) {
	for _, u := range s.Survey.Usage {
		if u.Key == key {
			return poolState(u), true
		}
	}
	return PoolState{}, false
}

// poolsWith returns the pools that contain an address.
func (s *Snapshot) poolsWith(a netip.Addr) (out []*lb.Pool) {
	for i := range s.Survey.Pools {
		if p := &s.Survey.Pools[i]; p.Contains(a) || p.Excludes(a) {
			out = append(out, p)
		}
	}
	return out
}

// announcesAddresses says whether agents announce addresses of any class.
func announcesAddresses(c *config.Configuration) bool {
	return slices.ContainsFunc(c.Backends(), func(b config.Backend) bool {
		return b == config.Announce || b.Places() && !c.CloudSigma.Pods
	})
}
