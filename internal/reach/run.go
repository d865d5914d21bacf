package reach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/cloudsigma"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
)

const (
	// period is how often what agents announce is compared with the cloud.
	period = 30 * time.Second
	// cloudAge is how old the lists of the cloud may be, which others read as well.
	cloudAge = time.Minute
	// tellAgain is how often a finding is reported that stays: the API server forgets
	// events after an hour.
	tellAgain = 50 * time.Minute

	component = "fairlead"
)

// Check compares what agents announce with what CloudSigma lets pass.
type Check struct {
	REST   *rest.Config
	Client *cloudsigma.Client
	Config *config.Configuration
	Log    *slog.Logger

	told map[string]time.Time
}

// NeedLeaderElection is true: one process reports.
func (c *Check) NeedLeaderElection() bool { return true }

// Start runs it until ctx ends.
func (c *Check) Start(ctx context.Context) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	kube, err := client.New(c.REST, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("create client to check announced addresses: %w", err)
	}
	c.told = map[string]time.Time{}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for wrong := false; ; {
		err := c.look(ctx, kube, time.Now())
		if err != nil && !wrong && ctx.Err() == nil {
			c.Log.Warn("cannot check whether CloudSigma lets announced addresses pass; retrying", "error", err)
		}
		wrong = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look compares once, and reports what is new.
func (c *Check) look(ctx context.Context, kube client.Client, now time.Time) error {
	var agents v1alpha1.AgentList
	// What the API server has in its cache is new enough.
	cached := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
	if err := kube.List(ctx, &agents, cached); err != nil {
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil // no agent was installed yet
		}
		return fmt.Errorf("list agents: %w", err)
	}
	announces := false
	for i := range agents.Items {
		announces = announces || len(agents.Items[i].Status.Addresses) > 0
	}
	if !announces {
		return nil
	}
	var nodes corev1.NodeList
	if err := kube.List(ctx, &nodes, cached); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	providerIDs := map[string]string{}
	for i := range nodes.Items {
		providerIDs[nodes.Items[i].Name] = nodes.Items[i].Spec.ProviderID
	}
	var has account
	var err error
	if has.servers, err = c.Client.Servers.Within(ctx, cloudAge); err != nil {
		return err
	}
	if has.ips, err = c.Client.IPs.Within(ctx, cloudAge); err != nil {
		return err
	}
	c.forget(now)
	var wrong []error
	for _, f := range find(agents.Items, providerIDs, &has) {
		for _, name := range f.services {
			wrong = append(wrong, c.tell(ctx, kube, kubeapi.ParseKey(name), f, now))
		}
	}
	return errors.Join(wrong...)
}

// forget what was reported long ago.
func (c *Check) forget(now time.Time) {
	for key, at := range c.told {
		if now.Sub(at) >= tellAgain {
			delete(c.told, key)
		}
	}
}

// tell writes an event on a Service of class announce, unless it has that already.
func (c *Check) tell(ctx context.Context, kube client.Client, service types.NamespacedName, f finding, now time.Time) error {
	key := service.String() + " " + f.reason.Text
	if _, told := c.told[key]; told {
		return nil
	}
	var s corev1.Service
	if err := kube.Get(ctx, service, &s); err != nil {
		return client.IgnoreNotFound(err)
	}
	name := ""
	if s.Spec.LoadBalancerClass != nil {
		name = *s.Spec.LoadBalancerClass
	}
	if class := c.Config.Class(name); class == nil || class.Backend != config.Announce {
		return nil // the controller attaches it, or will
	}
	event := kubeapi.Event{About: kubeapi.ServiceReference(service, s.UID), Warning: f.reason.Warning(), Reason: string(f.reason.Code),
		Message: f.reason.Text, Component: component, At: now}
	if err := kube.Create(ctx, event.Object()); err != nil {
		return fmt.Errorf("write event on Service %s: %w", service, err)
	}
	c.told[key] = now
	c.Log.Warn("CloudSigma drops packets for an announced address", "service", service.String(), "address", f.address, "reason", f.reason.Text)
	return nil
}
