package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

// look reads Nodes, members and claims, and what they mean for this node.
func (a *agent) look(now time.Time) {
	var list corev1.NodeList
	if err := a.cluster.List(a.background, &list); err != nil {
		a.membersDirty = true // with the next turn, once a renewal at the latest
		return
	}
	meta := metaOf(a.links, &a.scope, a.proxy.state(), !a.leaving.IsZero())
	members := map[string]member.Meta{}
	if a.group != nil {
		a.group.SetMeta(meta)
		for _, m := range a.group.Members() {
			members[m.Name] = m.Meta
			if len(m.Meta.MACs) > 0 {
				a.macs[m.Name] = m.Meta.MACs
			}
		}
		a.claims = a.group.Claims()
	}
	members[a.node] = meta
	a.members = members
	a.forgive(now)
	a.others = len(members) - 1
	alone, back := a.others == 0 && a.lost(list.Items), a.others > 0 && a.solitude != nil
	a.beAlone(alone)
	a.api.wanted.Store(alone)
	a.presumed = a.presume(list.Items, now)
	a.askLAN(now)
	switch isolated := alone && !a.api.reachable() && a.solitude.blind(); {
	case isolated != a.isolated:
		a.isolated, a.reportDirty = isolated, true
		if a.others == 0 { // they are on their way
			a.quietUntil = now.Add(peersPatience)
		}
	case back, a.others > 0 && a.quietUntil.After(now.Add(settlePause)):
		// They come one after the other, and claims of one before it is there itself.
		a.quietUntil = now.Add(settlePause)
	}
	a.voters = a.voters[:0]
	addresses := sets.New[netip.Addr]()
	clear(a.nodeAddrs)
	for i := range list.Items {
		n := &list.Items[i]
		has := nodeAddresses(n)
		addresses.Insert(has...)
		for _, addr := range has {
			a.nodeAddrs[addr] = n.Name
		}
		if n.Name == a.node && a.group != nil && len(has) > 0 && !slices.Contains(has, a.group.Addr().Addr()) {
			// Nobody hears us at the old one. The next process begins with the new.
			a.failure = fmt.Errorf("node address changed from %s to %s", a.group.Addr().Addr(), has[0])
		}
		if n.Name == a.node {
			a.labels = n.Labels
		}
		v := sources.Voter(n)
		v.Excluded = v.Excluded && !a.ignoreExcludeLabel
		if m, ok := members[n.Name]; ok {
			fill(&v, m)
		} else if a.presumed[n.Name] || a.group == nil && kubeapi.NodeReady(n) {
			fill(&v, meta) // nothing is known of its interfaces: as here
			v.Leaving, v.ProxyHealthy, v.Silence = false, true, nil
		}
		a.voters = append(a.voters, v)
	}
	a.tellMembers()
	for _, addr := range a.directory.setNodes(addresses) {
		if addresses.Has(addr) {
			a.log.Warn("Service address belongs to a node; not announcing it", "address", addr)
		}
		a.touch(addr)
		a.reportDirty = true
	}
	var own *corev1.Node
	if i := slices.IndexFunc(list.Items, func(n corev1.Node) bool { return n.Name == a.node }); i >= 0 {
		own = &list.Items[i]
	}
	a.followNode(own, now)
	a.countMembers(list.Items)
	a.peers.set(a.peersOf(list.Items))
	a.allDirty, a.presenceDirty = true, true
	a.metrics.members.Set(float64(len(members)))
}

// lost says whether agents of nodes have been lost: they may still be there, with
// this one cut off. It is otherwise with agents that took their leave, and with
// nodes that are no longer in the cluster.
func (a *agent) lost(nodes []corev1.Node) bool {
	return a.group != nil && slices.ContainsFunc(nodes, func(n corev1.Node) bool {
		_, died := a.group.Died(n.Name)
		return died
	})
}

// allow says that an interface's fence was renewed at that time.
func (a *agent) allow(iface string, at time.Time) {
	a.announcer.Allow(iface, at.Add(nft.FenceTime))
}
