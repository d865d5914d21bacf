package snapshot

import (
	"fmt"
	"slices"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// poolPeers checks the peers that pools of Fairlead's own kind name.
func (c *Checks) poolPeers(s *Snapshot, all []client.Object) {
	_, pools := s.poolsOf(s.objects, "", nil)
	if pools == nil {
		return // never: it is in memory
	}
	for i := range s.Survey.Pools {
		p := &s.Survey.Pools[i]
		if p.Key.Dialect != lb.Native {
			continue // advertisements name the peers of others
		}
		var missing []string
		for _, r := range p.Routes {
			for _, name := range r.Peers {
				if !slices.ContainsFunc(pools.Peers, func(peer lb.Peer) bool { return peer.Name == name }) {
					missing = append(missing, strconv.Quote(name))
				}
			}
		}
		x := Check{Name: "pool " + p.Key.String(), Mark: Failed, Fact: "advertise.bgp.peers names BGPPeers that are not in the files, or are refused: " + prose.And(missing), Fix: "Correct the names, or create the peers."}
		if !hasKind(all, metallb.KindPeer) {
			x.Mark, x.Fact, x.Fix = Skipped, fmt.Sprintf("advertise.bgp.peers names %s, and the files have no BGPPeer", prose.And(missing)), ""
		}
		if len(missing) > 0 {
			c.add(x)
		}
	}
}

// routeAnnotations checks what a Service asks for about its routes. Names of communities count if
// the files have some.
func (c *Checks) routeAnnotations(s *Snapshot, of *controller.Surveyed) bool {
	request := of.Request.Route
	if _, pools := s.poolsOf(s.objects, "", nil); pools != nil && len(pools.Aliases) > 0 {
		request = request.Resolve(pools.Aliases)
	}
	if request.Wrong == "" {
		return false
	}
	c.add(Check{Name: "service " + of.Key.String(), Mark: Failed, Fact: prose.Sentence(request.Wrong), Reason: string(lb.BGPAnnotationInvalid), Fix: "Correct the annotation: docs/reference/annotations.md."})
	return true
}

// hasKind says whether an object of a kind is among these.
func hasKind(all []client.Object, kind string) bool {
	return slices.ContainsFunc(all, func(o client.Object) bool { return o.GetObjectKind().GroupVersionKind().Kind == kind })
}
