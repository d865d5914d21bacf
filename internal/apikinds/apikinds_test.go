package apikinds

import (
	"context"
	"errors"
	"os"
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
	go func() { awaited <- await(ctx, d, pools) }()
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
		if err := await(t.Context(), s, pools, adverts); err != nil {
			t.Error(err)
		}
	})
}

func TestNobodyWaitsForWhatIsNotWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := await(ctx, &server{}, pools); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
	})
}
