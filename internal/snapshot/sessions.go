package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	reporter "fairlead.io/internal/controller/metallb"
	"fairlead.io/internal/lb"
)

// announceSection counts Services, and sessions with routers where there are some.
func announceSection(s *Snapshot, b config.Backend, of []ServiceState) Section {
	out := countServices(s, b, of)
	up, peers := 0, map[string]bool{}
	for _, session := range s.Survey.Routing.Sessions {
		if peers[session.Peer] = true; session.Established {
			up++
		}
	}
	if n := len(s.Survey.Routing.Sessions); n > 0 {
		out.Facts = append(out.Facts, fmt.Sprintf("BGP: %d of %s with %s established", up, many(n, "session"), many(len(peers), "router")))
	}
	out.Problems = append(s.peerProblems(), s.objectProblems()...)
	return out
}

func many(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// peerProblems are the peers whose sessions are not all established, or not as they should be,
// in the words that the controller writes on them.
func (s *Snapshot) peerProblems() (out []Problem) {
	sessions := s.Survey.Routing.Sessions
	for i, of := range sessions {
		if i > 0 && sessions[i-1].Peer == of.Peer {
			continue
		}
		if reason := reporter.PeerReason(of.Peer, sessions); !reason.Ready() {
			worst := of
			for _, session := range sessions {
				if session.Peer == of.Peer && !session.Established && worst.Established {
					worst = session
				}
			}
			out = append(out, Problem{About: "peer " + of.Peer, Reason: string(reason.Code), Message: reason.Text, Next: s.lookAtPeer(worst)})
		}
	}
	return out
}

// objectProblems are objects of MetalLB's kinds that are not used, or not entirely, but pools.
func (s *Snapshot) objectProblems() (out []Problem) {
	add := func(kind, name string, r lb.Reason) {
		about := strings.ToLower(kind) + " " + name
		if r.Ready() || kind == metallb.KindPool || slices.ContainsFunc(out, func(p Problem) bool { return p.About == about }) {
			return
		}
		out = append(out, Problem{About: about, Reason: string(r.Code), Message: r.Text, Next: fmt.Sprintf("kubectl describe %s -n %s %s", strings.ToLower(kind), s.Install.MetalLBNamespace, name)})
	}
	if !s.routesRead() {
		return nil
	}
	if _, pools := s.poolsOf(s.objects, "", nil); pools != nil {
		for _, c := range pools.Configurations {
			for _, p := range c.Problems {
				if !s.lacksAny(p.Kind) {
					add(p.Kind, p.Name, p.Reason)
				}
			}
		}
		for i := range pools.Peers {
			name := pools.Peers[i].Name
			has := slices.ContainsFunc(s.Survey.Routing.Sessions, func(x controller.Session) bool { return x.Peer == name })
			if !has && s.Survey.AgentsKnown && !pools.Peers[i].NamedOnly {
				add(metallb.KindPeer, name, reporter.PeerReason(name, nil))
			}
		}
	}
	for _, r := range s.Survey.Routing.Refused {
		add(r.Kind, r.Name, r.Reason)
	}
	if s.options.Brief { // why is in objects that were not read
		for _, o := range s.routeObjects() {
			if reason, wrong := writtenProblem(&o); wrong && o.GetKind() == metallb.KindBGPAdvertisement {
				add(o.GetKind(), o.GetName(), reason)
			}
		}
	}
	return out
}

// routesRead says whether objects about BGP were read.
func (s *Snapshot) routesRead() bool {
	return slices.ContainsFunc(routeKinds(), func(k kind) bool { return s.objects.lists[keyOf(k.list)] != nil })
}

// lacksAny says whether objects about BGP could not be read: what others say about them, or
// lack of them, means nothing then.
func (s *Snapshot) lacksAny(of string) bool {
	return of != metallb.KindAdvertisement && slices.ContainsFunc(routeKinds(), func(k kind) bool { return s.cannot(k.resource) })
}
