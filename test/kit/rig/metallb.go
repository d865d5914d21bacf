package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/metallb"
	"fairlead.io/charts"
)

// MetalLBNamespace is where objects of MetalLB's kinds count.
const MetalLBNamespace = "metallb-system"

// InstallMetalLB makes MetalLB's namespace and the kinds of crds, unless they are
// there, and waits until they can be used.
func (r *Rig) InstallMetalLB(t testing.TB, crds ...*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	ctx := context.Background()
	Eventually(t, "install MetalLB's kinds", func() error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: MetalLBNamespace}}
		if err := r.Client.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		for _, crd := range crds {
			if err := r.Client.Create(ctx, crd.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return nil
	})
	// All at once: the first list of a kind takes the API server a second.
	var usable sync.WaitGroup
	errs := make([]error, len(crds))
	for i, crd := range crds {
		usable.Go(func() { errs[i] = wait(ctx, func() error { return r.listable(ctx, crd) }) })
	}
	usable.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("use MetalLB's kinds: %v", err)
	}
}

func (r *Rig) listable(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.ListKind})
	return r.Client.List(ctx, &list)
}

// RemoveMetalLB removes all of MetalLB's kinds, with all objects.
func (r *Rig) RemoveMetalLB(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	Eventually(t, "remove MetalLB's kinds", func() error {
		left, err := r.metalLBCRDs(ctx)
		if err != nil {
			return err
		}
		for i := range left {
			if err := client.IgnoreNotFound(r.Client.Delete(ctx, &left[i])); err != nil {
				return err
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%d kinds left", len(left))
		}
		return nil
	})
}

func (r *Rig) metalLBCRDs(ctx context.Context) ([]apiextensionsv1.CustomResourceDefinition, error) {
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(crd apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Spec.Group != metallb.GroupVersion.Group
	}), nil
}

// cleanMetalLB removes all objects of MetalLB's kinds, in all namespaces.
func (r *Rig) cleanMetalLB(ctx context.Context) error {
	crds, err := r.metalLBCRDs(ctx)
	if err != nil {
		return err
	}
	for _, crd := range crds {
		kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.Kind}
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(crd.Spec.Names.ListKind))
		if err := r.Client.List(ctx, &list); err != nil {
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				return errors.New("a kind comes or goes")
			}
			return err
		}
		for i := range list.Items {
			o := &list.Items[i]
			o.SetGroupVersionKind(kind)
			if err := client.IgnoreNotFound(r.Client.Delete(ctx, o)); err != nil {
				return err
			}
		}
	}
	return nil
}

// BareMetalLBCRDs are definitions as MetalLB has them, as far as it matters here:
// fields that they do not know are dropped, statuses have no conditions, and what
// is written is not checked: its webhooks do that, which are gone with it.
func BareMetalLBCRDs() []*apiextensionsv1.CustomResourceDefinition {
	crds := charts.MetalLBCRDs()
	for _, crd := range crds {
		for i := range crd.Spec.Versions {
			prune(crd.Spec.Versions[i].Schema.OpenAPIV3Schema)
			properties := crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties
			switch crd.Spec.Names.Kind {
			case "IPAddressPool", "L2Advertisement":
				delete(properties["status"].Properties, "conditions")
			case "BGPPeer", "BGPAdvertisement", "BFDProfile", "Community":
				properties["status"] = apiextensionsv1.JSONSchemaProps{Type: "object"}
			}
		}
	}
	return crds
}

// OldMetalLBCRDs are definitions as they were when BGPPeer had one version, v1beta1.
func OldMetalLBCRDs() []*apiextensionsv1.CustomResourceDefinition {
	crds := charts.MetalLBCRDs()
	for _, crd := range crds {
		if crd.Spec.Names.Kind == "BGPPeer" {
			crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name != "v1beta1" })
			crd.Spec.Versions[0].Storage = true
		}
	}
	return crds
}

func prune(s *apiextensionsv1.JSONSchemaProps) {
	if len(s.Properties) > 0 { // else it is a kind of which ours know no fields
		s.XPreserveUnknownFields = nil
	}
	s.XValidations, s.MinItems, s.MaxItems = nil, nil, nil
	if s.XListType != nil && *s.XListType == "set" {
		s.XListType = nil
	}
	for name, p := range s.Properties {
		prune(&p)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		prune(s.Items.Schema)
	}
}
