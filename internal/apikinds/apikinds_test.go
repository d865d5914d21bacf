package apikinds

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/compat"
	"fairlead.io/sandbox"
)

var api *sandbox.API

func TestMain(m *testing.M) {
	os.Exit(sandbox.TestMain(m, sandbox.Options{NoControllers: true}, &api))
}

var (
	pools   = metallb.GroupVersion.WithKind("IPAddressPool")
	adverts = metallb.GroupVersion.WithKind("L2Advertisement")
)

// A kind is installed while somebody awaits it, who can watch it then.
func TestKindIsInstalledLater(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, metallb.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	d, err := discovery.NewDiscoveryClientForConfig(api.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(api.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	// Made before the kind was there, as it is in a daemon.
	watches, err := cache.New(api.RESTConfig(), cache.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { _ = watches.Start(ctx) }()

	if there, err := present(ctx, d, pools); there || err != nil {
		t.Fatalf("nothing is installed: %v, %v", there, err)
	}
	awaited := make(chan error, 1)
	go func() { awaited <- setOf(d, pools).await(ctx) }()
	install(t, c, "ipaddresspools")
	if err := <-awaited; err != nil {
		t.Fatal(err)
	}
	if there, err := present(ctx, d, pools); !there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
	if there, err := present(ctx, d, pools, adverts); there || err != nil {
		t.Errorf("only one of two is installed: %v, %v", there, err)
	}
	informer, err := watches.GetInformer(ctx, &metallb.IPAddressPool{})
	if err != nil || !informer.HasSynced() {
		t.Errorf("the kind that has come cannot be watched: %v", err)
	}
}

func install(t *testing.T, c client.Client, plural string) {
	t.Helper()
	raw, err := os.ReadFile("../../charts/fairlead/files/metallb/metallb.io_" + plural + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &crd); err != nil {
		t.Fatal(err)
	}
}

func setOf(d discoverer, kinds ...schema.GroupVersionKind) *Set {
	out := &Set{discovery: d}
	for _, kind := range kinds {
		out.all = append(out.all, compat.Kind{GroupVersionKind: kind})
	}
	return out
}

// A version that stands in for another is read only where the other is not served.
func TestOlderVersionStandsIn(t *testing.T) {
	older, newer := pools, pools
	newer.Version = "v1beta2"
	for name, c := range map[string]struct {
		serves []string
		want   []schema.GroupVersionKind
	}{
		"both":      {[]string{"v1beta1", "v1beta2"}, []schema.GroupVersionKind{newer}},
		"the newer": {[]string{"v1beta2"}, []schema.GroupVersionKind{newer}},
		"the older": {[]string{"v1beta1"}, []schema.GroupVersionKind{older}},
		"none":      {nil, nil},
	} {
		s := setOf(versions(c.serves), newer)
		s.all = append(s.all, compat.Kind{GroupVersionKind: older, Unless: newer})
		if got, err := s.Versions(t.Context()); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// versions of the group of pools that are served.
type versions []string

func (v versions) ServerResourcesForGroupVersionWithContext(_ context.Context, gv string) (*metav1.APIResourceList, error) {
	for _, version := range v {
		if gv == pools.Group+"/"+version {
			return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Kind: pools.Kind}}}, nil
		}
	}
	return nil, errAbsent
}

// server answers as it is told: nil is a list with the kinds that it has.
type server struct {
	answers []error
	has     []string
}

func (s *server) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	if len(s.answers) > 0 {
		err := s.answers[0]
		s.answers = s.answers[1:]
		if err != nil {
			return nil, err
		}
	}
	list := &metav1.APIResourceList{}
	for _, kind := range s.has {
		list.APIResources = append(list.APIResources, metav1.APIResource{Kind: kind})
	}
	return list, nil
}

var (
	errAway   = errors.New("connection refused")
	errAbsent = apierrors.NewNotFound(schema.GroupResource{}, "")
	errBusy   = apierrors.NewServiceUnavailable("starting")
)

func TestServerThatIsAwayDoesNotSayNo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []error{errAway, errBusy, errAway}, has: []string{pools.Kind}}
		if there, err := present(t.Context(), s, pools); !there || err != nil {
			t.Errorf("%v, %v", there, err)
		}
		s = &server{answers: []error{errAway, errAbsent}}
		if there, err := present(t.Context(), s, pools); there || err != nil {
			t.Errorf("%v, %v", there, err)
		}
		s = &server{answers: []error{errAbsent, errAway, nil, errAbsent}, has: []string{pools.Kind, adverts.Kind}}
		if err := setOf(s, pools, adverts).await(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestNobodyWaitsForWhatIsNotWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := setOf(&server{}, pools).await(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
	})
}
