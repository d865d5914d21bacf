// Package kubevip says what is written onto a Service so that kube-vip announces
// its addresses: everything that kube-vip's cloud provider writes, in one patch.
// It must not know how that is sent, and writes no status, which is kube-vip's.
package kubevip

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

// Serves says whether v is an answer that is written: the Service has all it
// asks for, or the rest is for kube-vip to lease.
func Serves(v lb.Verdict) bool { return v.Reason.Ready() || v.Reason.Code == lb.WaitingForLease }

// Text is what v is written as: addresses in the order of the Service's families,
// 0.0.0.0 or :: for one that a DHCP server gives.
func Text(families []lb.Family, v lb.Verdict) string {
	var out []string
	for _, f := range families {
		if v.DHCP[f] {
			out = append(out, unspecified[f].String())
			continue
		}
		for _, a := range v.Addresses {
			if lb.FamilyOf(a) == f {
				out = append(out, a.String())
			}
		}
	}
	return strings.Join(out, ",")
}

var unspecified = [len(lb.Families)]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}

// Patch returns the strategic merge patch that makes s say v, which Serves, the
// answer to a request with families; iface is where it is to be announced, if
// that is said. It is nil if s says so already. What somebody asks for in his own
// words stays as it is written.
func Patch(s *corev1.Service, families []lb.Family, v lb.Verdict, iface string) []byte {
	notes, spec, metadata := map[string]any{}, map[string]any{}, map[string]any{}
	text := Text(families, v)
	wish, _ := kubevip.Wish(s)
	annotated, given := s.Annotations[kubevip.AnnotationAddresses], s.Annotations[kubevip.AnnotationGiven]
	asked := wish != "" && sameSet(wish, text)
	switch {
	case asked && (strings.TrimSpace(annotated) == "" || annotated == given): // in spec.loadBalancerIP
		set(notes, s.Annotations, kubevip.AnnotationAddresses, text)
	case asked:
	default:
		set(notes, s.Annotations, kubevip.AnnotationAddresses, text)
		set(notes, s.Annotations, kubevip.AnnotationGiven, text)
		first, _, _ := strings.Cut(text, ",")
		if s.Spec.LoadBalancerIP != first {
			spec["loadBalancerIP"] = first
		}
		if _, has := s.Annotations[kubevip.AnnotationInterface]; !has && iface != "" && given == "" {
			notes[kubevip.AnnotationInterface] = iface
		}
	}
	if asked && given != "" {
		notes[kubevip.AnnotationGiven] = nil
	}
	set(notes, s.Annotations, native.AnnotationReason, note(v.Reason))
	if s.Labels[kubevip.Label] != kubevip.LabelValue {
		metadata["labels"] = map[string]any{kubevip.Label: kubevip.LabelValue}
	}
	if !slices.Contains(s.Finalizers, kubevip.Finalizer) {
		metadata["finalizers"] = []string{kubevip.Finalizer}
	}
	// Where it is from is no reason to write to all Services that are taken over.
	if _, told := s.Annotations[native.AnnotationAllocatedFrom]; told || len(notes)+len(metadata)+len(spec) > 0 {
		pools := make([]string, 0, len(v.Pools))
		for _, p := range v.Pools {
			pools = append(pools, p.String())
		}
		set(notes, s.Annotations, native.AnnotationAllocatedFrom, strings.Join(pools, ","))
	}
	if len(notes) > 0 {
		metadata["annotations"] = notes
	}
	return marshal(s, metadata, spec)
}

// Wait returns the patch that makes s say why it has not got what it asks for; nil
// if it says so already. It is in an annotation, so that it goes in the one write
// that gives the Service its address.
func Wait(s *corev1.Service, r lb.Reason) []byte {
	notes := map[string]any{}
	set(notes, s.Annotations, native.AnnotationReason, note(r))
	if len(notes) == 0 {
		return nil
	}
	return marshal(s, map[string]any{"annotations": notes}, nil)
}

// note is what is written of r: nothing if all is well.
func note(r lb.Reason) string {
	if r.Ready() && !r.Warning() {
		return ""
	}
	return r.String()
}

// Marked says whether s has something that is taken off when it is no longer
// served.
func Marked(s *corev1.Service) bool {
	_, given := s.Annotations[kubevip.AnnotationGiven]
	_, waits := s.Annotations[native.AnnotationReason]
	return given || waits || Kept(s)
}

// Kept says whether s cannot go before its address has been given back to kube-vip's
// cloud provider, or to Fairlead in its place. Its finalizer has a name that the
// controllers of clouds use, too; what else it wrote tells whose it is.
func Kept(s *corev1.Service) bool {
	_, annotated := s.Annotations[kubevip.AnnotationAddresses]
	return slices.Contains(s.Finalizers, kubevip.Finalizer) && (annotated || s.Labels[kubevip.Label] == kubevip.LabelValue)
}

// Release returns the patch that takes off everything of ours, so that the
// Service can go, and so can its address; nil if there is nothing. What somebody
// asked for stays. Without spec, which the status subresource does not write, what
// the Service was given stays known as that: it is no wish. iface is what Patch
// would write: where the Service has another, it is somebody's choice.
func Release(s *corev1.Service, iface string, withSpec bool) []byte {
	notes, spec, metadata := map[string]any{}, map[string]any{}, map[string]any{}
	wish, _ := kubevip.Wish(s)
	gone := []string{native.AnnotationAllocatedFrom, native.AnnotationReason, kubevip.AnnotationHost}
	if withSpec || s.Spec.LoadBalancerIP == "" || wish != "" {
		gone = append(gone, kubevip.AnnotationGiven)
		if wish == "" {
			gone = append(gone, kubevip.AnnotationAddresses)
		}
	}
	if s.Annotations[kubevip.AnnotationGiven] != "" && s.Annotations[kubevip.AnnotationInterface] == iface {
		gone = append(gone, kubevip.AnnotationInterface)
	}
	for _, key := range gone {
		if _, ok := s.Annotations[key]; ok {
			notes[key] = nil
		}
	}
	if withSpec && s.Spec.LoadBalancerIP != "" && wish == "" {
		spec["loadBalancerIP"] = nil
	}
	if len(notes) > 0 {
		metadata["annotations"] = notes
	}
	if s.Labels[kubevip.Label] == kubevip.LabelValue {
		metadata["labels"] = map[string]any{kubevip.Label: nil}
	}
	if slices.Contains(s.Finalizers, kubevip.Finalizer) {
		metadata["$deleteFromPrimitiveList/finalizers"] = []string{kubevip.Finalizer}
	}
	return marshal(s, metadata, spec)
}

// LetGo returns the patch that lets s, which is being deleted, go; nil if others
// still keep it, or we do not.
func LetGo(s *corev1.Service) []byte {
	if !slices.Equal(s.Finalizers, []string{kubevip.Finalizer}) {
		return nil
	}
	return marshal(s, map[string]any{"$deleteFromPrimitiveList/finalizers": []string{kubevip.Finalizer}}, nil)
}

// set notes the change that gives key the value, "" meaning that it is not there.
func set(changes map[string]any, has map[string]string, key, value string) {
	now, ok := has[key]
	switch {
	case value == "" && ok:
		changes[key] = nil
	case value != now:
		changes[key] = value
	}
}

func marshal(s *corev1.Service, metadata, spec map[string]any) []byte {
	if len(metadata) == 0 && len(spec) == 0 {
		return nil
	}
	metadata["resourceVersion"] = s.ResourceVersion
	patch := map[string]any{"metadata": metadata}
	if len(spec) > 0 {
		patch["spec"] = spec
	}
	data, err := json.Marshal(patch)
	if err != nil { // maps and lists of strings always marshal
		panic(err)
	}
	return data
}

// sameSet says whether two lists have the same addresses, however written.
func sameSet(a, b string) bool { return slices.Equal(addresses(a), addresses(b)) }

func addresses(list string) (out []netip.Addr) {
	for field := range strings.SplitSeq(list, ",") {
		if a, err := lb.ParseAddr(field); err == nil && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}
