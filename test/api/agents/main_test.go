// Package agents runs agents without nodes against a real API server, with the rights
// that the chart gives them and no others: what they write, how often, and what becomes
// of it if something goes wrong.
package agents

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/agentsim"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	crlog.SetLogger(logr.Discard())
	os.Exit(rig.Main(m, sandbox.Options{NoControllers: true, Audit: true}, &theRig))
}

var rights = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"services", "nodes"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"fairlead.io"}, Resources: []string{"pools"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"fairlead.io"}, Resources: []string{"agents"}, Verbs: []string{"get", "list", "watch", "create"}},
	{APIGroups: []string{"fairlead.io"}, Resources: []string{"agents/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "create", "update"}},
}

const user = "fairlead-agents"

// agents are nodes without anything but an agent each.
type agents struct {
	t       *testing.T
	gossip  *agentsim.Gossip // nil for real gossip
	config  *rest.Config
	names   []string
	members map[string]*prometheus.Registry
}

// newAgents has no agents yet. Each test has names and addresses of its own.
func newAgents(t *testing.T, real bool) *agents {
	t.Helper()
	rig.Grant(t, theRig.Kube, user, rights...)
	a := &agents{t: t, config: rest.CopyConfig(theRig.API.RESTConfig()), members: map[string]*prometheus.Registry{}}
	a.config.Impersonate.UserName = user
	a.config.UserAgent = t.Name()
	if !real {
		a.gossip = agentsim.NewGossip()
	}
	return a
}

// start starts agents of nodes, whose addresses it counts up from first, all at once.
func (a *agents) start(first string, names ...string) {
	a.t.Helper()
	addr := netip.MustParseAddr(first)
	addrs := map[string]netip.Addr{}
	for _, name := range names {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := theRig.Client.Create(a.t.Context(), n); err != nil {
			a.t.Fatal(err)
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr.String()}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := theRig.Client.Status().Update(a.t.Context(), n); err != nil {
			a.t.Fatal(err)
		}
		addrs[name], a.members[name] = addr, prometheus.NewRegistry()
		addr = addr.Next()
	}
	a.names = append(a.names, names...)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, name := range names {
		running.Go(func() {
			err := agentsim.Run(ctx, agentsim.Options{REST: rest.CopyConfig(a.config), Node: name, Addr: addrs[name], Gossip: a.gossip, Namespace: "kube-system", Registry: a.members[name]})
			if err != nil {
				a.t.Errorf("agent of %s: %v", name, err)
			}
		})
	}
	a.t.Cleanup(func() {
		cancel()
		running.Wait()
		for _, name := range names {
			for _, o := range []client.Object{&corev1.Node{}, &v1alpha1.Agent{}} {
				o.SetName(name)
				if err := client.IgnoreNotFound(theRig.Client.Delete(context.Background(), o)); err != nil {
					a.t.Error(err)
				}
			}
		}
	})
}

func (a *agents) get(name string) (*v1alpha1.Agent, error) {
	var o v1alpha1.Agent
	err := theRig.Client.Get(a.t.Context(), client.ObjectKey{Name: name}, &o)
	return &o, err
}

// ready waits until an agent says that it announces.
func (a *agents) ready(what string, names ...string) {
	a.t.Helper()
	for _, name := range names {
		rig.Eventually(a.t, what+": "+name+" is Ready", func() error {
			o, err := a.get(name)
			if err == nil && (len(o.Status.Conditions) != 1 || o.Status.Conditions[0].Status != metav1.ConditionTrue) {
				err = fmt.Errorf("status %+v", o.Status)
			}
			return err
		})
	}
}

// writes counts what agents have written of Agent objects, by object.
func (a *agents) writes() map[string]int {
	a.t.Helper()
	all, err := theRig.API.WriteCounts()
	if err != nil {
		a.t.Fatal(err)
	}
	out := map[string]int{}
	for w, n := range all {
		if w.Resource == "agents" && w.UserAgent == a.config.UserAgent {
			out[w.Name] += n
		}
	}
	return out
}
