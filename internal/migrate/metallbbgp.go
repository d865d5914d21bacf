package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
	"fairlead.io/internal/snapshot"
)

// MetalLB's ways to speak BGP: its own, FRR in the pods of its speakers, and frr-k8s.
const (
	nativeMode = "native"
	frrK8sMode = "frr-k8s"
)

var frrConfigurationKind = schema.GroupVersionKind{Group: "frrk8s.metallb.io", Version: "v1beta1", Kind: "FRRConfiguration"}

// bgpGuide has the steps for BGP.
const bgpGuide = "docs/guides/migrate-from-metallb.md#with-bgp"

// metalLBBGP is how MetalLB speaks BGP in a cluster.
type metalLBBGP struct {
	cluster *cluster
	speaker *Workload
	mode    string
	objects map[string][]unstructured.Unstructured // by kind
	// frr are FRRConfigurations, as namespace/name.
	frr []string
	// layer2: speakers announce on LANs as well.
	layer2 bool
	// seconds are the second addresses of nodes.
	seconds map[string]string
}

// readMetalLBBGP reads MetalLB's objects about BGP, and refuses what Fairlead has not.
func (f *finding) readMetalLBBGP(ctx context.Context, c *cluster, o Options, speaker *Workload) (*metalLBBGP, error) {
	g := &metalLBBGP{cluster: c, speaker: speaker, mode: nativeMode, objects: map[string][]unstructured.Unstructured{}, seconds: o.SecondAddresses}
	if mode := speaker.getenv("METALLB_BGP_TYPE"); mode != "" {
		g.mode = mode
	}
	for _, k := range metallb.BGPKinds() {
		if !k.Unless.Empty() && len(g.objects[k.Kind]) > 0 {
			continue // they are the same objects
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
		if err := c.list(ctx, "objects of kind "+k.Kind, list); err != nil {
			return nil, err
		}
		g.objects[k.Kind] = slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool { return u.GetNamespace() != speaker.Namespace })
	}
	frr, err := c.objectsOf(ctx, frrConfigurationKind)
	if err != nil {
		return nil, err
	}
	g.frr = frr.Names
	g.layer2 = slices.ContainsFunc(f.objects, func(o Objects) bool { return o.Kind == metallb.KindAdvertisement && len(o.Names) > 0 })
	if cm := c.configMap(ctx, speaker.Namespace, "bgpextras"); cm != nil && len(cm.Data) > 0 {
		f.refuse("BGP", fmt.Sprintf("ConfigMap %s/bgpextras has configuration for FRR, which Fairlead does not run", cm.Namespace), "Configure the routers so that it is not needed, and delete it. Or keep MetalLB.")
	}
	for _, condition := range []string{"bgp", "nodebynode", "atonce", "sidebyside", "frrk8s"} {
		f.holds[condition] = false
	}
	f.each[eachNode], f.each[eachPeered], f.each[eachSecond] = [][]string{}, [][]string{}, [][]string{}
	f.routes, f.services = true, g.assess
	return g, nil
}

// needsSecrets says whether a peer has its password in a Secret.
func (g *metalLBBGP) needsSecrets() bool {
	return slices.ContainsFunc(g.objects[metallb.KindPeer], func(u unstructured.Unstructured) bool {
		name, _, _ := unstructured.NestedString(u.Object, "spec", "passwordSecret", "name")
		return name != ""
	})
}

// harmless are reasons on objects that mean the same with MetalLB.
var harmless = []lb.Code{metallb.WrongNamespace, metallb.PeerUnknown, metallb.BFDTooFast}

// assess decides how the sessions change over.
func (g *metalLBBGP) assess(s *snapshot.Snapshot, f *finding) {
	for _, p := range s.RouteProblems() {
		if slices.Contains(harmless, lb.Code(p.Reason)) {
			f.skip(p.About, "%s", p.Message)
			continue
		}
		f.refuse(p.About, p.Reason+": "+p.Message, "Fix that first, while MetalLB serves it.")
	}
	for _, peer := range g.objects[metallb.KindPeer] {
		if vrf, _, _ := unstructured.NestedString(peer.Object, "spec", "vrf"); vrf != "" {
			f.skip("bgppeer "+peer.GetName(), "VRF %s: Fairlead supports VRFs, but no test has one", vrf)
		}
	}
	var generated []string
	for _, name := range g.frr {
		_, own, _ := strings.Cut(name, "/")
		node, is := strings.CutPrefix(own, "metallb-")
		if is && slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == node }) {
			generated = append(generated, name)
			continue
		}
		if g.mode == frrK8sMode {
			f.refuse("FRRConfiguration "+name, "it is not of MetalLB: Fairlead learns no routes and reads no FRRConfiguration", "Keep MetalLB and frr-k8s for it, or delete it: "+bgpGuide+".")
		} else {
			f.skip("FRRConfiguration "+name, "frr-k8s serves it, and MetalLB does not use frr-k8s here: it stays as it is")
		}
	}
	nodes := g.cluster.nodesOf(g.speaker)
	f.routers = routersOf(s, nodes)
	if len(f.routers) == 0 {
		if n := len(g.objects[metallb.KindPeer]); n > 0 {
			f.skip("BGP", "no node that runs a speaker has a session with one of %d BGPPeers", n)
		}
		if len(g.seconds) > 0 {
			f.refuse("BGP", "no node has a session with a router, so no second address is needed", "Leave out --second-address.")
		}
		return
	}
	for _, r := range f.routers {
		f.pass("BGP", "%s has sessions with %s (MetalLB's mode %s)", r.Peer, prose.Few(r.Nodes), g.mode)
	}
	f.holds["bgp"] = true
	for _, node := range nodes {
		pairs := []string{
			"app.kubernetes.io/name=metallb,app.kubernetes.io/component=speaker", g.cluster.selectorOf(g.speaker),
			"--namespace frr-k8s-system metallb-node1", "--namespace " + namespaceOf(generated, "metallb-"+node) + " metallb-" + node,
			"node1", node,
		}
		peers := peersOf(f.routers, node)
		if len(peers) == 0 {
			f.each[eachNode] = append(f.each[eachNode], append([]string{"\n" + waitInGuide, ""}, pairs...))
			continue
		}
		pairs = append([]string{waitInGuide, waitFor(node, peers...)}, pairs...)
		f.each[eachNode], f.each[eachPeered] = append(f.each[eachNode], pairs), append(f.each[eachPeered], pairs)
	}
	gap := "up to five seconds pass from MetalLB's Cease to Fairlead's session: the router has no routes of the node meanwhile"
	switch {
	case len(g.seconds) > 0:
		g.sideBySide(s, f)
		return
	case g.mode == frrK8sMode:
		f.holds["frrk8s"] = true
	case g.layer2:
		f.holds["atonce"] = true
		gap = "up to five seconds pass from MetalLB's Cease to Fairlead's sessions: the routers have no routes meanwhile. Speakers that announce by ARP and NDP as well end on all nodes at once"
	default:
		f.holds["nodebynode"] = true
	}
	if g.mode == nativeMode {
		gap += ". No route is missing if nodes have a second address that the routers accept as a neighbour: --second-address NODE=ADDRESS"
	}
	f.skip("BGP", "%s", gap)
}

// namespaceOf returns the namespace of an object of a list.
func namespaceOf(names []string, name string) string {
	for _, n := range names {
		if namespace, own, _ := strings.Cut(n, "/"); own == name {
			return namespace
		}
	}
	return "frr-k8s-system"
}

// eachSecond repeats a part of a guide for each session of a second address.
const eachSecond = "second"

// sideBySide has a second session for each of MetalLB's, so that both announce.
func (g *metalLBBGP) sideBySide(s *snapshot.Snapshot, f *finding) {
	refuse := func(format string, args ...any) {
		f.refuse("--second-address", fmt.Sprintf(format, args...), "Correct that, or leave out --second-address: the steps then say how long routes are missing.")
	}
	if g.mode != nativeMode {
		refuse("MetalLB has mode %s, in which its speakers would use the second peers themselves", g.mode)
	}
	for _, node := range sortedKeys(g.seconds) {
		if len(peersOf(f.routers, node)) == 0 {
			refuse("node %s has no session with a router", node)
		}
	}
	for _, ad := range g.objects[metallb.KindBGPAdvertisement] {
		if peers, _, _ := unstructured.NestedStringSlice(ad.Object, "spec", "peers"); len(peers) > 0 {
			refuse("BGPAdvertisement %s names its peers, so it would not be announced to second ones", ad.GetName())
		}
	}
	for _, node := range g.cluster.nodesOf(g.speaker) {
		if len(peersOf(f.routers, node)) > 0 && g.seconds[node] == "" {
			refuse("node %s has sessions, and no second address is given for it", node)
		}
	}
	f.holds["sidebyside"] = true
	for _, p := range s.Peerings() {
		i := slices.IndexFunc(g.objects[metallb.KindPeer], func(u unstructured.Unstructured) bool { return u.GetName() == p.Peer.Name })
		if i < 0 {
			continue
		}
		for _, node := range p.Nodes {
			if g.seconds[node] == "" || !slices.Contains(peersOf(f.routers, node), p.Peer.Name) {
				continue
			}
			second, why := g.second(s, &g.objects[metallb.KindPeer][i], &p.Peer, node)
			if why != "" {
				refuse("%s", why)
				continue
			}
			f.each[eachSecond] = append(f.each[eachSecond], second)
		}
	}
}

// second makes the second peer of a node: pairs of what the guide says, and what to say.
func (g *metalLBBGP) second(s *snapshot.Snapshot, object *unstructured.Unstructured, peer *lb.Peer, node string) (pairs []string, why string) {
	source, err := netip.ParseAddr(g.seconds[node])
	switch {
	case err != nil:
		return nil, fmt.Sprintf("%q is not an IP address", g.seconds[node])
	case !peer.Address.IsValid() || lb.FamilyOf(source) != lb.FamilyOf(peer.Address):
		return nil, fmt.Sprintf("%s is not of the IP family of BGPPeer %s", source, peer.Name)
	case source == peer.Source || slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return hasAddress(&n, source) }):
		return nil, fmt.Sprintf("%s is the address that a node has its sessions from already", source)
	case peer.Password != "":
		return nil, fmt.Sprintf("BGPPeer %s has its password in spec.password, which the steps do not print: move it to a Secret", peer.Name)
	case peer.Keepalive < time.Second:
		return nil, fmt.Sprintf("BGPPeer %s has no keepalives, by which MetalLB tells the second peer from its own", peer.Name)
	case !slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == node && n.Labels[corev1.LabelHostname] == node }):
		return nil, fmt.Sprintf("node %s does not have the label %s=%s", node, corev1.LabelHostname, node)
	}
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	spec["sourceAddress"], spec["keepaliveTime"] = source.String(), peer.Keepalive.Truncate(time.Second).String()
	spec["nodeSelectors"] = []any{map[string]any{"matchLabels": map[string]any{corev1.LabelHostname: node}}}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err.Error() // never: it was JSON
	}
	name := "second-" + peer.Name + "-" + node
	return []string{
		"{myASN: 65010, peerASN: 65001, peerAddress: 10.99.0.1, sourceAddress: 10.99.0.111, keepaliveTime: 30s, nodeSelectors: [{matchLabels: {kubernetes.io/hostname: node1}}]}", string(text),
		`kubectl wait agent/node1 --for=jsonpath='{.status.peers[?(@.name=="second-tor-node1")].state}'=Established --timeout=2m`, waitFor(node, name),
		"metallb.io/v1beta2", object.GetAPIVersion(),
		"second-tor-node1", name,
	}, ""
}

// hasAddress says whether a node has an address.
func hasAddress(n *corev1.Node, a netip.Addr) bool {
	return slices.ContainsFunc(n.Status.Addresses, func(x corev1.NodeAddress) bool { return x.Address == a.String() })
}
