package migrate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
	"fairlead.io/internal/snapshot"
)

// environment has the variables of kube-vip that mean something to Fairlead's agents.
type environment struct {
	// all of them, in the order of the reference.
	all []corev1.EnvVar
	// bgp is what they say about BGP; nil if it is not enabled.
	bgp *config.KubeVIPBGP
	// secret: some have passwords.
	secret bool
}

// readEnvironment reads the variables, and refuses those that Fairlead cannot use.
func (f *finding) readEnvironment(announcer *Workload) (e environment) {
	var vars []corev1.EnvVar
	if len(announcer.template.Containers) > 0 {
		vars = announcer.template.Containers[0].Env
	}
	var literal []string
	for _, v := range vars {
		if v.ValueFrom == nil {
			literal = append(literal, v.Name+"="+v.Value)
		}
	}
	var err error
	if e.bgp, err = config.KubeVIPBGPFrom(literal); err != nil {
		// Parts of the list may be passwords.
		text, _, list := strings.Cut(err.Error(), "$bgp_peers: ")
		if list {
			text += "$bgp_peers has an entry that is not address:AS:password:multihop:port:options:BFD"
		}
		f.refuse("kube-vip", prose.Sentence(text), "Correct the variable in "+announcer.name()+": docs/reference/kube-vip.md.")
	}
	e.secret = e.bgp != nil && slices.ContainsFunc(e.bgp.Peers, func(p lb.Peer) bool { return p.Password != "" })
	for _, known := range config.KubeVIPVariables {
		for _, v := range vars {
			switch {
			// Every agent has its own name of the node, and is there to serve Services.
			case known.Effect != config.Effective, !known.Names(v.Name), v.Name == "vip_nodename", v.Name == "svc_enable":
			case e.bgp == nil && known.AboutBGP(), v.Value == "" && v.ValueFrom == nil:
			case v.ValueFrom == nil, v.ValueFrom.FieldRef != nil:
				e.all = append(e.all, v)
			default:
				f.refuse("kube-vip", fmt.Sprintf("variable %s has its value from an object in namespace %s, where Fairlead's agents do not run", v.Name, announcer.Namespace), "Write the value into "+announcer.name()+" itself.")
			}
		}
	}
	return e
}

// set gives the chart the variables. Values that may be passwords are not printed: a command reads
// them where kube-vip has them.
func (e *environment) set(v *values, announcer *Workload) {
	if len(e.all) == 0 {
		return
	}
	shown := slices.Clone(e.all)
	var read values
	for i := range shown {
		if name := shown[i].Name; e.secret && (name == "bgp_peers" || name == "bgp_peerpass") {
			shown[i].Value = ""
			path := ".spec.template.spec"
			if announcer.Kind == "Pod" {
				path = ".spec"
			}
			read = append(read, fmt.Sprintf(`--set-literal "kubeVip.env[%d].value=$(kubectl get %s %s --namespace %s --output jsonpath='{%s.containers[0].env[?(@.name=="%s")].value}')"`,
				i, strings.ToLower(announcer.Kind), announcer.Name, announcer.Namespace, path, name))
		}
	}
	v.setJSON("kubeVip.env", shown)
	*v = append(*v, read...)
}

// kubeVIPSessions decides how the sessions of kube-vip change over.
func (f *finding) kubeVIPSessions(c *cluster, announcer *Workload, controlPlane bool) {
	if controlPlane {
		f.refuse("kube-vip", announcer.name()+" announces the address of the API server by BGP as well, and a router accepts one session from a node's address", "Give kube-vip or Fairlead's agents another source address (bgp_sourceip), and follow the guide by hand: docs/guides/migrate-from-kube-vip.md#replace-both.")
	}
	f.services = func(s *snapshot.Snapshot, f *finding) {
		var nodes []string
		for i := range c.found {
			if w := &c.found[i]; w.Component == announcerComponent && w.Kind == announcer.Kind && w.getenv("svc_enable") != "false" {
				nodes = append(nodes, c.nodesOf(w)...)
			}
		}
		slices.Sort(nodes)
		nodes = slices.Compact(nodes)
		f.routers = routersOf(s, nodes)
		for _, r := range f.routers {
			f.pass("BGP", "%s has sessions with %s", strings.TrimPrefix(r.Peer, "kube-vip/"), prose.Few(r.Nodes))
		}
		for _, node := range nodes {
			pairs := []string{
				"--selector app.kubernetes.io/name=kube-vip-ds", "--selector " + c.selectorOf(announcer),
				"delete pod --namespace kube-system", "delete pod --namespace " + announcer.Namespace,
				"node1", node,
			}
			wait := []string{"\n" + kubeVIPWaitInGuide, ""}
			if peers := peersOf(f.routers, node); len(peers) > 0 {
				wait = []string{kubeVIPWaitInGuide, waitFor(node, peers...)}
			} else {
				f.skip("BGP", "node %s has no session: %s", node, noAnnotations(s, node))
			}
			if announcer.Kind == "DaemonSet" {
				f.each[eachNode] = append(f.each[eachNode], append(wait, pairs...))
			}
		}
		f.skip("BGP", "up to five seconds pass from kube-vip's Cease to Fairlead's session: the router has no routes of the node meanwhile")
	}
}

// kubeVIPWaitInGuide is waitInGuide with the name of a peer of kube-vip's variables.
var kubeVIPWaitInGuide = strings.Replace(waitInGuide, "tor", "kube-vip/10.99.0.1", 1)

// noAnnotations says why a Node's annotations name no peer.
func noAnnotations(s *snapshot.Snapshot, node string) string {
	i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == node })
	if b := s.Install.KubeVIPBGP; i >= 0 && b != nil && b.Annotations != "" {
		if _, err := b.Annotated(s.Nodes[i].Annotations); err != nil {
			return strings.TrimPrefix(err.Error(), "the Node has ")
		}
	}
	return "it is not known"
}
