package migrate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/prose"
	"fairlead.io/internal/snapshot"
)

// Router is a BGP peer, and the nodes that have a session with it.
type Router struct {
	// Peer is its name in the status of Agents.
	Peer  string   `json:"peer"`
	Nodes []string `json:"nodes"`
}

// What repeats a part of a guide: each node that announces, and each that has sessions.
const (
	eachNode   = "node"
	eachPeered = "peered"
)

// waitInGuide is the command of the guides that waits for the sessions of a node.
const waitInGuide = "kubectl wait agent/node1 --for=jsonpath='{.status.peers[?(@.name==\"tor\")].state}'=Established --timeout=2m"

// waitFor are the commands that wait until a node has a session with each of these peers.
func waitFor(node string, peers ...string) (out string) {
	for i, peer := range peers {
		if i > 0 {
			out += "\n"
		}
		out += fmt.Sprintf("kubectl wait agent/%s --for=jsonpath='{.status.peers[?(@.name==%q)].state}'=Established --timeout=2m", node, peer)
	}
	return out
}

// routersOf are the routers with which these nodes have sessions.
func routersOf(s *snapshot.Snapshot, nodes []string) (out []Router) {
	for _, p := range s.Peerings() {
		r := Router{Peer: p.Peer.Name}
		for _, node := range p.Nodes {
			if slices.Contains(nodes, node) {
				r.Nodes = append(r.Nodes, node)
			}
		}
		if len(r.Nodes) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// peersOf are the routers of one node.
func peersOf(routers []Router, node string) (out []string) {
	for _, r := range routers {
		if slices.Contains(r.Nodes, node) {
			out = append(out, r.Peer)
		}
	}
	return out
}

// nodesOf are the nodes on which the pods of a workload run.
func (c *cluster) nodesOf(w *Workload) (out []string) {
	for i := range c.pods.Items {
		p := &c.pods.Items[i]
		owner := metav1.GetControllerOfNoCopy(p)
		own := w.Kind == "Pod" && p.Name == w.Name || owner != nil && owner.Kind == w.Kind && owner.Name == w.Name
		if p.Namespace == w.Namespace && own && p.Spec.NodeName != "" && p.Status.Phase != corev1.PodFailed {
			out = append(out, p.Spec.NodeName)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// selectorOf selects the pods of a DaemonSet, and none of Fairlead, which may have its labels.
func (c *cluster) selectorOf(w *Workload) string {
	const label = "app.kubernetes.io/name"
	for i := range c.daemonSets.Items {
		d := &c.daemonSets.Items[i]
		if d.Namespace != w.Namespace || d.Name != w.Name || d.Spec.Selector == nil {
			continue
		}
		out := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: d.Spec.Selector.MatchLabels})
		if d.Spec.Selector.MatchLabels[label] == "" {
			out += "," + label + "!=fairlead"
		}
		return quote(out)
	}
	return ""
}

// routers wants every session to be there, from Fairlead, and every route.
func (v *Verification) routers(s *snapshot.Snapshot, before []Router) {
	if len(before) == 0 {
		return
	}
	if s.Survey == nil || !s.Survey.AgentsKnown {
		v.add("BGP", snapshot.Unclear, "unknown: cannot list agents", "")
		return
	}
	up, all := 0, 0
	for _, r := range before {
		var missing []string
		for _, node := range r.Nodes {
			all++
			if is, why := s.SessionEstablished(r.Peer, node); is {
				up++
			} else {
				missing = append(missing, node+": "+strings.TrimSuffix(why, "."))
			}
		}
		if len(missing) > 0 {
			v.add("peer "+r.Peer, snapshot.Failed, fmt.Sprintf("%d of %d nodes have a session with the router. %s", len(r.Nodes)-len(missing), len(r.Nodes), prose.Few(missing)), "kubectl fairlead status")
		}
	}
	if up == all {
		v.add("BGP", snapshot.Passed, fmt.Sprintf("%d of %d sessions are established, by Fairlead", up, all), "")
	}
	if why := s.Unelected(); why != "" {
		v.add("routes", snapshot.Unclear, "unknown: "+why, "")
		return
	}
	missing := s.MissingRoutes()
	for _, a := range sortedKeys(missing) {
		v.add("route "+a, snapshot.Failed, "not announced from "+prose.Few(missing[a]), "kubectl fairlead why "+a)
	}
	if len(missing) == 0 {
		v.add("routes", snapshot.Passed, "every node announces what it should", "")
	}
}
