package metallb

import (
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// Former is what the objects of a reading meant. A change that makes an object unusable must not
// withdraw routes on all nodes at once: as long as the object is there, the next reading goes by
// what it said before. Nothing of this outlives the process.
type Former struct {
	// profiles that peers use, by name.
	profiles map[string]*lb.BFD
	// aliases of communities that advertisements use.
	aliases map[string]lb.Community
	peers   map[types.UID]formerPeer
	routes  map[types.UID]routed
}

// formerPeer is a peer without BFD, and the name of its profile.
type formerPeer struct {
	lb.Peer
	profile string
}

func newFormer() Former {
	return Former{profiles: map[string]*lb.BFD{}, aliases: map[string]lb.Community{}, peers: map[types.UID]formerPeer{}, routes: map[types.UID]routed{}}
}
