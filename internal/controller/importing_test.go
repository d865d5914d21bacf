package controller

import (
	"context"
	"log/slog"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
)

// A pool that arrives while Services are being imported is told to the ledger
// by its own reconcile; the import must not take it away again, for nothing
// would bring it back.
func TestImportKeepsPoolsThatArriveMeanwhile(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	objects := crfake.NewClientBuilder().WithScheme(scheme).Build()
	l := newLedger(func([]types.NamespacedName) {})
	api := fake.NewClientset()
	api.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/28"}}}
		if err := objects.Create(t.Context(), pool); err != nil {
			return true, nil, err
		}
		_, err := (&pools{cache: objects, ledger: l}).Reconcile(t.Context(), reconcile.Request{})
		return err != nil, nil, err
	})
	i := &importer{cache: readCache{Cache: nil, reader: objects}, client: api, config: config.Default(), ledger: l, log: slog.New(slog.DiscardHandler)}
	if _, err := i.importAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(l.usage()); n != 1 {
		t.Errorf("after the import the ledger has %d pools, want the one that arrived", n)
	}
}

// readCache is a cache of which only reading is used.
type readCache struct {
	cache.Cache
	reader client.Reader
}

func (c readCache) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, o, opts...)
}

func (c readCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, list, opts...)
}
