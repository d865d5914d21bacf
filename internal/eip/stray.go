package eip

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/lb"
)

// ownerOf is the EIp that an OvnEip was made for, by its labels. Its name is "" if it is too
// long for a label; ok is false if the OvnEip was not made here.
func ownerOf(o *kubeovn.OvnEip) (key types.NamespacedName, ok bool) {
	if o == nil || o.Labels[LabelUID] == "" || o.Labels[LabelNamespace] == "" {
		return key, false
	}
	return types.NamespacedName{Namespace: o.Labels[LabelNamespace], Name: o.Labels[LabelName]}, true
}

// labelled is the key that ownerOf returns for an EIp.
func labelled(namespace, name string) types.NamespacedName {
	if len(name) > maxName {
		name = ""
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// madeFor are the OvnEips with the labels of an EIp of that name, sorted by name. All EIps
// whose name is too long for a label have theirs in common.
func (v *View) madeFor(name string) (out []*kubeovn.OvnEip) {
	key := labelled(v.Namespace, name)
	for _, ovnEip := range slices.Sorted(maps.Keys(v.OvnEips)) {
		if owner, ok := ownerOf(v.OvnEips[ovnEip]); ok && owner == key && !v.gateway(v.OvnEips[ovnEip]) {
			out = append(out, v.OvnEips[ovnEip])
		}
	}
	return out
}

// strays deletes OvnEips that were made for an EIp of that name, and that no EIp has: it was
// deleted without its finalizer, or refers to another one by childRef. Each would take an
// address for ever. One that is used is kept until it is not: wait is when to look again.
func (v *View) strays(name string) (steps []lb.Step, wait time.Duration) {
	if !v.Serves {
		return nil, 0
	}
	for _, o := range v.madeFor(name) {
		if o.DeletionTimestamp != nil || v.has(o) {
			continue
		}
		// After a change of the leader, the OvnEip may be known before its EIp is.
		left := v.Patience - v.Now.Sub(o.CreationTimestamp.Time)
		switch {
		case left <= 0 && !v.used(o):
			steps = append(steps, remove("OvnEip", o, "its EIp is gone or refers to another OvnEip", lb.ImpactNone))
		case left <= 0:
			left = v.Patience
			fallthrough
		default:
			wait = sooner(wait, left)
		}
	}
	return steps, wait
}

// has says whether an EIp of the namespace has the OvnEip.
func (v *View) has(o *kubeovn.OvnEip) bool {
	for _, r := range v.eips {
		if string(r.object.UID) == o.Labels[LabelUID] && r.object.Spec.ChildRef == "" && (r.ovn == nil || r.ovn.Name == o.Name) {
			return true
		}
	}
	return false
}

// used says whether an OvnEip may be in use: by rows in the database, or by rules of kube-ovn.
func (v *View) used(o *kubeovn.OvnEip) bool {
	for _, a := range addressesOf(o) {
		if len(v.rowsAt[a]) > 0 {
			return true
		}
	}
	return v.RowsUnknown || len(v.Rules[o.Name]) > 0 || o.Status.NAT != ""
}

// sooner is the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
