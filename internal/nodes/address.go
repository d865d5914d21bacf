package nodes

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// shown are the addresses that a Node shows: those that the cloud knows. Where it
// may not know all, the kubelet's own address is added; where it knows none, none is
// taken away.
func shown(node *corev1.Node, server *Server) []corev1.NodeAddress {
	all := slices.Clone(server.Addresses)
	add := func(of corev1.NodeAddressType, text string) {
		addr, err := netip.ParseAddr(strings.TrimSpace(text))
		known := slices.ContainsFunc(all, func(a corev1.NodeAddress) bool { return a.Address == addr.String() })
		if err == nil && !known && !slices.Contains(server.Served, addr) {
			all = append(all, corev1.NodeAddress{Type: of, Address: addr.String()})
		}
	}
	none := !slices.ContainsFunc(all, isIP)
	if !none && !server.Unlisted {
		return all
	}
	if none {
		for _, a := range node.Status.Addresses {
			if isIP(a) {
				add(a.Type, a.Address)
			}
		}
	}
	if given := node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; given != "" {
		for text := range strings.SplitSeq(given, ",") {
			add(typeOf(text), text)
		}
	}
	return all
}

func isIP(a corev1.NodeAddress) bool {
	return a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP
}

// typeOf an address by its range.
func typeOf(text string) corev1.NodeAddressType {
	if addr, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil && !addr.IsPrivate() {
		return corev1.NodeExternalIP
	}
	return corev1.NodeInternalIP
}
