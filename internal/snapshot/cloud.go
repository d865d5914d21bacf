package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Cloud returns the backend of a cloud that can say what it would do, for a cluster with
// this name and this UID of its namespace kube-system. It is an error if the environment
// does not say how to reach the cloud.
type Cloud func(cluster, uid string) (backend.Backend, error)

// errNoPlans is why what a cloud does is not predicted.
var errNoPlans = errors.New("its plans need the controller: set the annotation fairlead.io/dry-run on the Service")

// compareClouds adds what clouds would do for the Services that a change concerns: their
// own plans. all are the objects after the change.
func (s *Snapshot) compareClouds(ctx context.Context, p *Plan, all *objects, after *controller.Survey, changed []client.Object) error {
	backends := map[config.Backend]backend.Backend{}
	failed := map[config.Backend]error{}
	concerned := map[string][]string{} // reason → Services that were skipped
	for i := range after.Services {
		of := &after.Services[i]
		if of.Class == nil || of.Ignored != "" || of.Class.Backend.FromPools() || !concerns(changed, of) {
			continue
		}
		name := of.Class.Backend
		if backends[name] == nil && failed[name] == nil {
			backends[name], failed[name] = s.cloud(name)
		}
		if err := failed[name]; err != nil {
			concerned[fmt.Sprintf("at %s: %v", name, err)] = append(concerned[fmt.Sprintf("at %s: %v", name, err)], of.Key.String())
			continue
		}
		out, err := backends[name].Sync(ctx, s.want(all, after, of))
		if err != nil && ctx.Err() != nil {
			return err
		}
		if c, differs := cloudChange(of, out, err); differs {
			p.Services = append(p.Services, c)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(concerned)) {
		p.Skipped = append(p.Skipped, fmt.Sprintf("load balancers of %s %s", prose.Few(concerned[reason]), reason))
	}
	return nil
}

// cloud returns the backend of a cloud.
func (s *Snapshot) cloud(name config.Backend) (backend.Backend, error) {
	open := s.options.Clouds[name]
	if open == nil {
		return nil, errNoPlans
	}
	var system corev1.Namespace
	uid := ""
	if s.objects.Get(still, client.ObjectKey{Name: "kube-system"}, &system) == nil {
		uid = string(system.UID)
	}
	return open(s.Config.ClusterName, uid)
}

// concerns says whether changed objects change what a cloud does for a Service: the
// Service itself, or a Node. OVN leads to pods.
func concerns(changed []client.Object, of *controller.Surveyed) bool {
	return slices.ContainsFunc(changed, func(o client.Object) bool {
		switch o := o.(type) {
		case *corev1.Node:
			return of.Class.Backend != config.OVN
		case *corev1.Service:
			return client.ObjectKeyFromObject(o) == of.Key
		}
		return false
	})
}

// want is what the Service asks of its cloud, as the controller asks.
func (s *Snapshot) want(all *objects, after *controller.Survey, of *controller.Surveyed) lb.Want {
	w := lb.Want{Service: *of.Service, Request: of.Request, Verdict: of.Verdict, DryRun: true}
	for _, n := range all.nodes() {
		w.Nodes = append(w.Nodes, kubeapi.Node(&n))
	}
	slices.SortFunc(w.Nodes, func(a, b lb.Node) int { return strings.Compare(a.Name, b.Name) })
	var found discoveryv1.EndpointSliceList
	_ = all.List(still, &found) // it cannot fail
	w.Endpoints = kubeapi.Endpoints(slices.DeleteFunc(slices.Clone(found.Items), func(e discoveryv1.EndpointSlice) bool {
		return e.Namespace != of.Key.Namespace || e.Labels[discoveryv1.LabelServiceName] != of.Key.Name
	}))
	uids := map[types.UID]types.NamespacedName{}
	for i := range after.Services {
		other := &after.Services[i]
		uids[other.UID] = other.Key
		if other.Class != nil && other.Class.Backend == of.Class.Backend {
			w.Peers = append(w.Peers, *other.Service)
		}
	}
	w.Lives = func(uid types.UID) (types.NamespacedName, bool) {
		key, is := uids[uid]
		return key, is
	}
	return w
}

// cloudChange is what the outcome of a dry run means for a Service.
func cloudChange(of *controller.Surveyed, out lb.Outcome, err error) (c ServiceChange, differs bool) {
	c = ServiceChange{Service: of.Key.String(), Before: prose.Texts(of.Published()), After: prose.Texts(of.Published()), Reason: string(out.Reason.Code), Message: out.Reason.Text}
	switch {
	case err != nil:
		if c.Message == "" {
			c.Message = err.Error()
		}
		c.Cost = costCloudRefuses
		return c, true
	case out.Plan.Empty() && out.Reason.Code == lb.ChangesPlanned:
		return c, false
	case out.Plan.Empty():
		c.Cost = costReason
		return c, out.Reason.Code != ""
	case len(c.Before) == 0:
		c.After = []string{"an address of the cloud"}
	}
	c.Cost = "in the cloud: " + out.Plan.Impact().String()
	return c, true
}
