package lb

import (
	"fmt"
	"slices"
	"strconv"
)

// RouteRequest is what a Service asks for about its routes.
type RouteRequest struct {
	Communities []Community
	Aliases     []string // names of further communities
	// LocalPref counts if HasLocalPref.
	LocalPref    uint32
	HasLocalPref bool
	Drain        bool
	// Wrong is what cannot be understood, or "".
	Wrong string
}

// Equal says whether both ask for the same.
func (r *RouteRequest) Equal(s *RouteRequest) bool {
	return slices.Equal(r.Communities, s.Communities) && slices.Equal(r.Aliases, s.Aliases) && r.LocalPref == s.LocalPref && r.HasLocalPref == s.HasLocalPref && r.Drain == s.Drain && r.Wrong == s.Wrong
}

// Resolve returns the request with its aliases replaced. Those that nobody defines are wrong.
func (r RouteRequest) Resolve(aliases map[string]Community) RouteRequest {
	out := r
	out.Communities, out.Aliases = slices.Clone(r.Communities), nil
	for _, name := range r.Aliases {
		c, known := aliases[name]
		if !known {
			if out.Wrong != "" {
				out.Wrong += "; "
			}
			out.Wrong += "no Community object defines " + strconv.Quote(name)
			continue
		}
		out.Communities = append(out.Communities, c)
	}
	return out
}

// Amend adds what a Service asks for, whose aliases are resolved, to a path of one address.
// What would be too many communities is left out, and returned as what is wrong.
func (p *Path) Amend(r *RouteRequest) (wrong string) {
	if !p.Prefix.IsSingleIP() {
		return ""
	}
	if r.HasLocalPref {
		p.LocalPref = r.LocalPref
	}
	united, ok := unite(p.Communities, r.Communities)
	if !ok {
		return fmt.Sprintf("together with those of the advertisements, %s would have %d communities; a route may have %d", p.Prefix, len(united), MaxCommunities)
	}
	p.Communities = united
	return ""
}
