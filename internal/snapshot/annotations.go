package snapshot

import (
	"slices"
	"strings"

	"fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
)

// annotations that are read or written on Services, of all formats.
var annotations = append(keys(cloudscale.Annotations),
	native.AnnotationAddresses, native.AnnotationPool, native.AnnotationShare, native.AnnotationReallocate, native.AnnotationDryRun,
	native.AnnotationBGPCommunities, native.AnnotationBGPLocalPref, native.AnnotationBGPDrain,
	native.AnnotationAllocatedFrom, native.AnnotationGiven, native.AnnotationReason, native.AnnotationAsked, native.AnnotationProof, native.AnnotationDHCP,
	metallb.AnnotationAddressPool, metallb.AnnotationAddresses, metallb.AnnotationShare, metallb.AnnotationAllocatedFrom,
	kubevip.AnnotationAddresses, kubevip.AnnotationInterface, kubevip.AnnotationIgnore, kubevip.AnnotationHostname, kubevip.AnnotationRequestedIP, kubevip.AnnotationHardwareAddress, kubevip.AnnotationHost,
	cloudsigma.AnnotationPool,
	kubedc.AnnotationDefaultGateway, kubedc.AnnotationEIp, kubedc.AnnotationNetworkType, kubedc.AnnotationOldNetworkType, kubedc.AnnotationRouter, kubedc.AnnotationSwitches,
	cloudscale.AnnotationCreating,
)

func keys(all []cloudscale.Annotation) (out []string) {
	for _, a := range all {
		out = append(out, a.Key)
	}
	return out
}

// oldPrefix of MetalLB's annotations is still read.
const oldPrefix, newPrefix = "metallb.universe.tf/", "metallb.io/"

// sharedPrefix is of annotations that kube-dc reads elsewhere, too.
const sharedPrefix = "network.kube-dc.com"

// unknownAnnotations returns those with the prefix of a format that nothing reads.
func unknownAnnotations(has map[string]string) (out []string) {
	for key := range has {
		if rest, old := strings.CutPrefix(key, oldPrefix); old {
			if !slices.Contains(annotations, newPrefix+rest) {
				out = append(out, key)
			}
			continue
		}
		prefix, _, _ := strings.Cut(key, "/")
		if prefix == sharedPrefix || kubedc.Unserved(key) {
			continue
		}
		ours := slices.ContainsFunc(annotations, func(a string) bool { return strings.HasPrefix(a, prefix+"/") })
		if ours && !slices.Contains(annotations, key) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}
