package kubedc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/projects"
	"fairlead.io/internal/routes"
	standin "fairlead.io/sandbox/kubeovn"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
)

const project = "routed"

// newProject has a project of a single Vpc, and what follows it.
func newProject(t *testing.T) (client.Client, *projects.Projects) {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, kubeovn.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(theRig.API.RESTConfig(), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range standin.CRDs() {
		if err := theRig.Client.Create(t.Context(), crd); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	vpc := &kubeovn.Vpc{ObjectMeta: metav1.ObjectMeta{Name: project}, Spec: kubeovn.VpcSpec{Namespaces: []string{project}}}
	rig.Eventually(t, "there is a Vpc", func() error { return c.Create(t.Context(), vpc.DeepCopy()) })
	t.Cleanup(func() { _ = c.Delete(context.Background(), vpc) })
	p, err := projects.New(projects.Options{
		REST: theRig.API.RESTConfig(), Log: slog.New(slog.NewTextHandler(process.LogOf(t, "projects"), nil)), Writes: true, Serves: true,
		Claim:  func(*lb.Service) (eip.Claim, bool) { return eip.Claim{}, false },
		Rows:   func(netip.Addr, []lb.Port) ([]eip.Row, error) { return nil, nil },
		Served: func(types.NamespacedName) ([]routes.Served, error) { return nil, errors.New("there is no database") },
	})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(running, func(...types.NamespacedName) {}) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c, p
}

// Policy routes of many Services are made while somebody else writes the Vpc, too. Nobody
// loses any.
func TestRoutesBesideOthers(t *testing.T) {
	c, p := newProject(t)
	key := client.ObjectKey{Name: project}
	rig.Eventually(t, "the Vpc is known", func() error {
		_, ok, _, err := p.Locate(project)
		if err == nil && !ok {
			err = fmt.Errorf("%s is no project yet", project)
		}
		return err
	})
	route := func(match string) kubeovn.PolicyRoute {
		return kubeovn.PolicyRoute{Priority: 30010, Action: "reroute", Match: match, NextHopIP: "100.64.0.1"}
	}
	const each = 20
	var all sync.WaitGroup
	all.Go(func() {
		for i := range each {
			err := retry.RetryOnConflict(wait.Backoff{Steps: 1000, Duration: 5 * time.Millisecond, Jitter: 1}, func() error {
				var v kubeovn.Vpc
				if err := c.Get(t.Context(), key, &v); err != nil {
					return err
				}
				v.Spec.PolicyRoutes = append(v.Spec.PolicyRoutes, kubeovn.PolicyRoute{Priority: 1, Match: fmt.Sprint("theirs ", i)})
				return c.Update(t.Context(), &v)
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	for i := range each {
		all.Go(func() {
			service := types.NamespacedName{Namespace: "elsewhere", Name: fmt.Sprint("s", i)}
			for _, needed := range [][]kubeovn.PolicyRoute{{route("shared"), route("old")}, {route("shared"), route(service.Name)}} {
				if err := p.Route(t.Context(), project, service, needed); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var v kubeovn.Vpc
	if err := c.Get(t.Context(), key, &v); err != nil {
		t.Fatal(err)
	}
	for i := range each {
		for _, want := range []kubeovn.PolicyRoute{{Priority: 1, Match: fmt.Sprint("theirs ", i)}, route(fmt.Sprint("s", i))} {
			if !slices.Contains(v.Spec.PolicyRoutes, want) {
				t.Errorf("%v is not there", want)
			}
		}
	}
	if n := len(v.Spec.PolicyRoutes); n != 2*each+1 || slices.Contains(v.Spec.PolicyRoutes, route("old")) {
		t.Errorf("%d routes: %v", n, v.Spec.PolicyRoutes)
	}
}
