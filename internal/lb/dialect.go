package lb

import (
	"net/netip"

	"fairlead.io/internal/prose"
)

// MetalLB is the name of MetalLB's configuration format.
const MetalLB Dialect = "metallb"

// KubeVIP is the name of kube-vip's configuration format.
const KubeVIP Dialect = "kube-vip"

// ListAddrs writes addresses as they are read in a sentence.
func ListAddrs(addresses []netip.Addr) string { return prose.Addrs(addresses) }
