package metallb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// reportBGP says on all objects about BGP what is wrong with them, and on peers what all
// agents report. It says whether they say it now.
func (m *Reporter) reportBGP(ctx context.Context, objects *metallb.BGP, reasons map[types.UID]lb.Reason, routing *controller.Routing) bool {
	done := true
	report := func(all []unstructured.Unstructured, ready func(o *unstructured.Unstructured) lb.Reason) {
		for i := range all {
			kind := all[i].GroupVersionKind()
			now := objectOf(kind).(*unstructured.Unstructured)
			if !m.fresh(ctx, &all[i], now) {
				continue
			}
			reason, wrong := reasons[now.GetUID()]
			switch unknown := kind.Kind == metallb.KindPeer && !routing.Known; {
			case unknown && !wrong:
				continue
			case !wrong:
				reason = ready(now)
			case stillConnects(reason) && !unknown:
				reason = reason.And(ready(now))
			}
			done = m.write(ctx, kind, now, nil, conditionsOf(now), reason) && done
		}
	}
	report(objects.Peers, func(o *unstructured.Unstructured) lb.Reason { return PeerReason(o.GetName(), routing.Sessions) })
	report(objects.Advertisements, func(*unstructured.Unstructured) lb.Reason {
		return metallb.Reasons.With(metallb.AdvertisementReady, "no pool")
	})
	report(objects.Profiles, func(*unstructured.Unstructured) lb.Reason { return metallb.Reasons.With(metallb.BFDProfileReady) })
	report(objects.Communities, func(*unstructured.Unstructured) lb.Reason { return metallb.Reasons.With(metallb.CommunityReady) })
	return done
}

// stillConnects says whether nodes connect to a peer although this is wrong with it.
func stillConnects(r lb.Reason) bool {
	return r.Code == metallb.BFDProfileMissing || r.Code == metallb.BFDProfileGone
}

// addRefused adds to problems what only agents know about objects, unless the objects have
// others: of these, agents know whether nodes go on as before. Of several nodes that refuse one object, the first by name counts.
func addRefused(found []metallb.Problem, objects *metallb.BGP, refused []controller.RefusedObject) []metallb.Problem {
	for _, all := range [][]unstructured.Unstructured{objects.Peers, objects.Advertisements} {
		for i := range all {
			o := &all[i]
			n := slices.IndexFunc(refused, func(r controller.RefusedObject) bool { return r.Kind == o.GetKind() && r.Name == o.GetName() })
			known := slices.IndexFunc(found, func(p metallb.Problem) bool { return p.UID == o.GetUID() })
			switch problem := (metallb.Problem{Kind: o.GetKind(), Object: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, UID: o.GetUID()}); {
			case n < 0:
			case known < 0:
				problem.Reason = refused[n].Reason
				found = append(found, problem)
			case found[known].Reason.Ready(), knowsMore(refused[n].Reason, found[known].Reason):
				found[known].Reason = refused[n].Reason
			}
		}
	}
	return found
}

// knowsMore says whether an agent's reason is the controller's, and what the agent does about it.
func knowsMore(agent, own lb.Reason) bool {
	return agent.Code == own.Code && strings.HasPrefix(agent.Text, own.Text) || agent.Code == metallb.CommunityGone && own.Code == metallb.CommunityUnknown
}

// PeerReason is what all agents together report about a peer.
func PeerReason(name string, all []controller.Session) lb.Reason {
	var nodes, up int
	var troubles []string
	whose := map[string][]string{}
	for _, s := range all {
		if s.Peer != name {
			continue
		}
		if nodes++; s.Established {
			up++
		}
		if text := strings.TrimSuffix(s.Trouble, "."); text != "" {
			if whose[text] == nil {
				troubles = append(troubles, text)
			}
			whose[text] = append(whose[text], s.Node)
		}
	}
	have := "have"
	if nodes == 1 {
		have = "has"
	}
	count := fmt.Sprintf("%d of %d nodes %s", up, nodes, have)
	for i, text := range troubles {
		troubles[i] = prose.Few(whose[text]) + ": " + text
	}
	switch {
	case nodes == 0:
		return metallb.Reasons.With(metallb.PeerUnused)
	case up < nodes:
		return metallb.Reasons.With(metallb.SessionsMissing, count, prose.Clauses(troubles))
	case len(troubles) > 0:
		return metallb.Reasons.With(metallb.SessionsImpaired, count, prose.Clauses(troubles))
	}
	return metallb.Reasons.With(metallb.SessionsEstablished, count)
}

// conditionsOf returns the conditions in the status of an object; none if it has others than
// Kubernetes' own.
func conditionsOf(o *unstructured.Unstructured) []metav1.Condition {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if raw, err := json.Marshal(o.Object["status"]); err != nil || json.Unmarshal(raw, &status) != nil {
		return nil
	}
	return status.Conditions
}
