// Package rig is what tests of the whole system stand on: a real API server with
// Fairlead's kinds, clients, and controllers in the test's own process (for the
// race detector) or as the real binary (to be killed).
package rig

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/internal/notary"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/tree"
)

// Rig is a real API server that knows our kinds.
type Rig struct {
	API    *sandbox.API
	Client client.WithWatch     // for all kinds
	Kube   kubernetes.Interface // for what needs a typed client
}

// Main runs the tests of a package with a rig, which it puts into *r.
func Main(m *testing.M, o sandbox.Options, r **Rig) int {
	var api *sandbox.API
	return sandbox.TestMain(runner(func() int {
		var err error
		if *r, err = New(context.Background(), api); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return tree.Share(m.Run)
	}), o, &api)
}

type runner func() int

func (r runner) Run() int { return r() }

// New installs our kinds in a running API server.
func New(ctx context.Context, api *sandbox.API) (*Rig, error) {
	r, err := Connect(api)
	if err != nil {
		return nil, err
	}
	for _, crd := range charts.CRDs() {
		if err := r.Client.Create(ctx, crd); err != nil {
			return nil, fmt.Errorf("install %s: %w", crd.Name, err)
		}
	}
	return r, wait(ctx, func() error { return r.Client.List(ctx, &v1alpha1.PoolList{}) })
}

// Connect makes clients of a running API server, which need not know our kinds.
func Connect(api *sandbox.API) (*Rig, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, metallb.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	c, err := client.NewWithWatch(api.RESTConfig(), client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	kube, err := kubernetes.NewForConfig(api.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &Rig{API: api, Client: c, Kube: kube}, nil
}

// Clean removes all pools, also MetalLB's, and all Services but the API server's
// own, whatever keeps them.
func (r *Rig) Clean(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	Eventually(t, "the API server is empty", func() error {
		if err := r.Client.DeleteAllOf(ctx, &v1alpha1.Pool{}); err != nil {
			return err
		}
		if err := r.cleanMetalLB(ctx); err != nil {
			return err
		}
		key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: notary.Secret}}
		if err := r.Client.Delete(ctx, key); client.IgnoreNotFound(err) != nil {
			return err
		}
		var list corev1.ServiceList
		if err := r.Client.List(ctx, &list); err != nil {
			return err
		}
		for i := range list.Items {
			s := &list.Items[i]
			if s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes" {
				continue
			}
			if len(s.Finalizers) > 0 {
				free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				if err := r.Client.Patch(ctx, s, free); client.IgnoreNotFound(err) != nil {
					return err
				}
			}
			if err := r.Client.Delete(ctx, s); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		if n := len(list.Items); n > 1 {
			return fmt.Errorf("%d services left", n-1)
		}
		return nil
	})
}

// deadline is how long anything may take on a slow machine. It is no
// expectation: what is expected sooner is measured in test/bench.
const deadline = 3 * time.Minute

// Eventually waits until f returns no error, and fails the test with its last
// error if that does not happen.
func Eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	if err := wait(context.Background(), f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func wait(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", deadline, err)
		case <-tick.C:
		}
	}
}
