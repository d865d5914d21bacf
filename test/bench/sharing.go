package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
)

// kind is how the Services of one measurement differ from plain ones.
type kind struct {
	name   string
	change func(*corev1.Service)
}

var sharingKinds = []kind{
	{"plain", nil},
	{"a sharing key each", func(s *corev1.Service) {
		s.Annotations = map[string]string{metallb.AnnotationShare: s.Name}
	}},
	{"one sharing key and one port", func(s *corev1.Service) {
		s.Annotations = map[string]string{metallb.AnnotationShare: namespace}
	}},
	{"a sharing key each and externalTrafficPolicy Local", func(s *corev1.Service) {
		s.Annotations = map[string]string{metallb.AnnotationShare: s.Name}
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}},
}

// sharing: Services that may share an address must not cost more than others,
// for the controller may look at nobody else because of them. The bare loop serves the
// same Services: an annotation more costs the API server time, too. The pool is an
// IPAddressPool; the rest is as in throughput.
func sharing(ctx context.Context, s settings) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.useMetalLB(ctx); err != nil {
		return nil, err
	}
	perSecond := make([][]float64, len(sides)*len(sharingKinds))
	err = inTurns(s.rounds, len(perSecond), func(i int) error {
		k, of := sharingKinds[i/len(sides)], sides[i%len(sides)]
		seconds, err := c.addressAll(ctx, s, of, k.change)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", of.name, k.name, err)
		}
		perSecond[i] = append(perSecond[i], float64(s.n)/seconds)
		progress("  %s: %s: %.2f s", of.name, k.name, seconds)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, k := range sharingKinds {
		ours, bare := median(perSecond[i*len(sides)]), median(perSecond[i*len(sides)+1])
		rows = append(rows, info("addresses per second, "+k.name+", Fairlead to bare loop", ours/bare, "×").atLeast(0.9))
	}
	return append(rows, info("addresses per second from the start, "+sharingKinds[0].name, median(perSecond[0]), "1/s")), nil
}

// useMetalLB replaces the pool by one of MetalLB's.
func (c *cluster) useMetalLB(ctx context.Context) error {
	if err := c.client.Delete(ctx, &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: poolName}}); err != nil {
		return err
	}
	if err := c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: rig.MetalLBNamespace}}); err != nil {
		return err
	}
	for _, crd := range charts.MetalLBCRDs() {
		if err := c.client.Create(ctx, crd); err != nil {
			return err
		}
	}
	return poll(ctx, "MetalLB's kinds can be used", pollEvery, func() (bool, error) {
		err := c.client.Create(ctx, &metallbapi.IPAddressPool{
			ObjectMeta: metav1.ObjectMeta{Namespace: rig.MetalLBNamespace, Name: poolName},
			Spec:       metallbapi.IPAddressPoolSpec{Addresses: []string{poolAddresses}},
		})
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}
