package metallb

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// Kinds of MetalLB that are read, and the one that is written.
var (
	PoolKind          = metallb.GroupVersion.WithKind(KindPool)
	AdvertisementKind = metallb.GroupVersion.WithKind(KindAdvertisement)
	StateKind         = metallb.GroupVersion.WithKind("ConfigurationState")
	peerKind          = schema.GroupVersionKind{Group: metallb.GroupVersion.Group, Version: "v1beta2", Kind: KindPeer}
)

// BGPKinds are those about BGP, as what is reported on and never changes a pool. Peers are
// read as v1beta2, in which MetalLB stores them: its webhook that converts other versions may
// be gone. Clusters whose CRDs are older have only v1beta1.
func BGPKinds() []compat.Kind {
	var out []compat.Kind
	for _, kind := range []schema.GroupVersionKind{peerKind, metallb.GroupVersion.WithKind(KindPeer), metallb.GroupVersion.WithKind(KindBGPAdvertisement),
		metallb.GroupVersion.WithKind(KindProfile), metallb.GroupVersion.WithKind(KindCommunity)} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(kind)
		k := compat.Kind{GroupVersionKind: kind, Object: o, Quiet: true, List: func() runtime.Object {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			return list
		}}
		if kind.Kind == KindPeer && kind != peerKind {
			k.Unless = peerKind
		}
		out = append(out, k)
	}
	return out
}

// StateName is the name of the controller's ConfigurationState.
const StateName = "controller"

// Dialect is MetalLB's format: its kinds, of which objects in one namespace count,
// and its annotations.
type Dialect struct{ Namespace string }

var (
	_ compat.Dialect    = Dialect{}
	_ compat.Noter      = Dialect{}
	_ compat.Deprecator = Dialect{}
)

// Name is metallb.
func (Dialect) Name() lb.Dialect { return Name }

// Kinds are all that are read, and the one that the controller's state is in.
func (Dialect) Kinds() []compat.Kind {
	return append([]compat.Kind{
		{GroupVersionKind: PoolKind, Object: &metallb.IPAddressPool{}, List: func() runtime.Object { return &metallb.IPAddressPoolList{} }},
		{GroupVersionKind: AdvertisementKind, Object: &metallb.L2Advertisement{}, List: func() runtime.Object { return &metallb.L2AdvertisementList{} }},
		{GroupVersionKind: StateKind, Object: &metallb.ConfigurationState{}, Slim: slimState, Quiet: true},
	}, BGPKinds()...)
}

// slimState drops the states of MetalLB's other processes.
func slimState(o compat.Object) {
	if s, ok := o.(*metallb.ConfigurationState); ok && s.Name != StateName {
		s.Labels, s.Status = nil, metallb.ConfigurationStateStatus{}
	}
}

// Read translates all objects together.
func (d Dialect) Read(o compat.Objects) compat.Reading {
	out := &Reading{Objects: Objects{Namespace: d.Namespace}}
	for _, object := range o.All[PoolKind] {
		if p, ok := object.(*metallb.IPAddressPool); ok {
			out.Objects.Pools = append(out.Objects.Pools, *p)
		}
	}
	for _, object := range o.All[AdvertisementKind] {
		if a, ok := object.(*metallb.L2Advertisement); ok {
			out.Objects.Advertisements = append(out.Objects.Advertisements, *a)
		}
	}
	for _, kind := range BGPKinds() {
		for _, object := range o.All[kind.GroupVersionKind] {
			// A version that came later may be read beside the one that stood in for it.
			if u, ok := object.(*unstructured.Unstructured); ok && (kind.Unless.Empty() || len(o.All[kind.Unless]) == 0) {
				out.Objects.BGP.Add(kind.Kind, u)
			}
		}
	}
	var routing Routing
	out.pools, routing = out.Objects.TranslateAll()
	out.Problems = routing.Problems
	return out
}

// Words name MetalLB's kind and its annotations.
func (Dialect) Words() lb.Words { return Words }

// Notes name the pools of MetalLB's kind, as its controller does.
func (Dialect) Notes(_ *lb.Service, v *lb.Verdict, _ string) map[string]string {
	if outOfPool := len(v.Addresses) > 0 && len(v.Pools) == 0; outOfPool {
		return nil // it goes on naming the pool that it is from
	}
	var names []string
	for _, p := range v.Pools {
		if p.Dialect == Name {
			names = append(names, p.Name)
		}
	}
	return map[string]string{AnnotationAllocatedFrom: strings.Join(names, ",")}
}

// Deprecated reports annotations under their old names.
func (Dialect) Deprecated(s *lb.Service) *lb.Reason {
	old, use := OldAnnotations(s)
	if old == "" {
		return nil
	}
	r := Reasons.With(OldAnnotation, old, use)
	return &r
}

// Reading is what MetalLB's objects say.
type Reading struct {
	Objects  Objects
	Problems []Problem
	pools    []lb.Pool
}

// Pools of MetalLB's kind.
func (r *Reading) Pools() []lb.Pool { return r.pools }

// Warnings are none: problems are in the objects' status.
func (r *Reading) Warnings() []lb.Warning { return nil }

// Amend adds what MetalLB's annotations ask for.
func (r *Reading) Amend(q *lb.Request, s *lb.Service, _ compat.Class) { amend(q, s) }

// Same is always so: the objects say nothing about Services.
func (r *Reading) Same(compat.Reading) bool { return true }
