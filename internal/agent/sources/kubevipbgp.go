package sources

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// kubevipPeers returns the peers of kube-vip's environment, or of this node's annotations.
// Only routes that name them use them.
func (r *Reader) kubevipPeers(ctx context.Context) []lb.Peer {
	b := r.o.KubeVIPBGP
	if b == nil {
		return nil
	}
	peers := b.Peers
	if b.Annotations != "" {
		var node corev1.Node
		if err := r.cluster.Get(ctx, types.NamespacedName{Name: r.o.Node}, &node); err != nil {
			return nil
		}
		var err error
		if peers, err = b.Annotated(node.Annotations); err != nil && !errors.Is(err, config.ErrNotAnnotated) {
			r.o.Log.Error("BGP peers in the Node's annotations cannot be used", "error", err)
		}
	}
	peers = slices.Clone(peers)
	for i := range peers {
		peers[i].Name, peers[i].NamedOnly = string(kubevip.Name)+"/"+peers[i].Name, true
	}
	return peers
}

// kubevipRoutes is how Services are announced that are read in kube-vip's format: to these
// peers.
func (r *Reader) kubevipRoutes(peers []lb.Peer) []lb.Route {
	if r.o.KubeVIPBGP == nil {
		return nil
	}
	names := []string{string(kubevip.Name)} // which no peer has: none is not all
	for i := range peers {
		names = append(names, peers[i].Name)
	}
	return []lb.Route{{Name: string(kubevip.Name), Peers: names, Aggregation: [...]int{lb.IPv4: 32, lb.IPv6: 128}}}
}

// NodesMatter says whether pools are to be read again when a Node has changed.
func (r *Reader) NodesMatter() bool {
	return r.routers.objects.Load() != nil || r.o.KubeVIPBGP != nil && r.o.KubeVIPBGP.Annotations != ""
}
