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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/projects"
	"fairlead.io/internal/routes"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
)

// Policy routes of many Services are made while somebody else writes the Vpc, too. Nobody
// loses any.
func TestRoutesBesideOthers(t *testing.T) {
	const project = "shalb-dev"
	t.Parallel()
	w := newStory(t, useRig(t))
	w.installKinds()
	w.clean()
	w.makeProject()
	followed, err := projects.New(projects.Options{
		REST: w.rig.API.RESTConfig(), Log: slog.New(slog.NewTextHandler(process.LogOf(t, "projects"), nil)), Writes: true,
		Claim:  func(*lb.Service) (eip.Claim, bool) { return eip.Claim{}, false },
		Rows:   func(netip.Addr, []lb.Port) ([]eip.Row, error) { return nil, nil },
		Served: func(types.NamespacedName) ([]routes.Served, error) { return nil, errors.New("there is no database") },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := followed.Run(ctx, func(...types.NamespacedName) {}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	key := client.ObjectKey{Name: project}
	rig.Eventually(t, "the Vpc is known", func() error {
		_, ok, _, err := followed.Locate(project)
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
			err := retry.OnError(wait.Backoff{Duration: 5 * time.Millisecond, Steps: 1000}, func(error) bool { return true }, func() error {
				var v kubeovn.Vpc
				if err := w.client.Get(t.Context(), key, &v); err != nil {
					return err
				}
				v.Spec.PolicyRoutes = append(v.Spec.PolicyRoutes, kubeovn.PolicyRoute{Priority: 1, Match: fmt.Sprint("theirs ", i)})
				return w.client.Update(t.Context(), &v)
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
				// A Service that found others writing for too long is looked at again.
				err := retry.OnError(wait.Backoff{Duration: 5 * time.Millisecond, Steps: 1000}, apierrors.IsConflict, func() error {
					return followed.Route(t.Context(), project, service, needed)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var v kubeovn.Vpc
	if err := w.client.Get(t.Context(), key, &v); err != nil {
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
