package nodes

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	"k8s.io/component-base/metrics/prometheus/controllers"

	"fairlead.io/internal/apiretry"
	"fairlead.io/internal/lb"
)

// Options of the node controllers.
type Options struct {
	REST  *rest.Config
	Cloud Cloud
	Log   *slog.Logger

	// MonitorPeriod is how often Nodes that are not ready are looked up in the
	// cloud; 0 is 5 seconds.
	MonitorPeriod time.Duration
	// StatusPeriod is how often the addresses of all Nodes are; 0 is 5 minutes.
	StatusPeriod time.Duration
	// Workers is how many Nodes are written at the same time; 0 is 4.
	Workers int
	// NoInitializing leaves new Nodes and addresses to others, NoLifecycle those
	// that are not ready.
	NoInitializing, NoLifecycle bool
}

const (
	defaultMonitorPeriod = 5 * time.Second
	defaultStatusPeriod  = 5 * time.Minute
	defaultWorkers       = 4

	component = "fairlead"
)

// Controllers are the node controllers as a part of a process.
type Controllers struct{ o Options }

// New makes the node controllers.
func New(o Options) *Controllers {
	o.MonitorPeriod = cmp.Or(o.MonitorPeriod, defaultMonitorPeriod)
	o.StatusPeriod = cmp.Or(o.StatusPeriod, defaultStatusPeriod)
	o.Workers = cmp.Or(o.Workers, defaultWorkers)
	return &Controllers{o}
}

// NeedLeaderElection is true: one process writes Nodes.
func (c *Controllers) NeedLeaderElection() bool { return true }

// Start runs them until ctx ends.
func (c *Controllers) Start(ctx context.Context) error {
	writer, err := kubernetes.NewForConfig(unlimited(c.o.REST))
	if err != nil {
		return fmt.Errorf("create client for the node controllers: %w", err)
	}
	reader, err := kubernetes.NewForConfig(apiretry.Config(c.o.REST, c.o.Log))
	if err != nil {
		return fmt.Errorf("create client for the node controllers: %w", err)
	}
	// Nodes have few events, all alike: client-go may fold them.
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: writer.CoreV1().Events("")})
	recorder := events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})

	of := provider{c.o.Cloud.Name(), &eventInstances{InstancesV2: instances{c.o.Cloud}, now: time.Now, tell: func(n *corev1.Node, r lb.Reason) {
		kind := corev1.EventTypeNormal
		if r.Warning() {
			kind = corev1.EventTypeWarning
		}
		recorder.Event(n, kind, string(r.Code), r.Text)
		c.o.Log.Warn("node has a problem", "node", n.Name, "reason", r.Code, "text", r.Text)
	}}}
	all := informers.NewSharedInformerFactoryWithOptions(reader, 0, informers.WithTransform(slim))
	initializing, err := node.NewCloudNodeController(all.Core().V1().Nodes(), writer, of, c.o.StatusPeriod, int32(c.o.Workers), int32(c.o.Workers))
	if err != nil {
		return fmt.Errorf("make node controller: %w", err)
	}
	lifecycle, err := nodelifecycle.NewCloudNodeLifecycleController(all.Core().V1().Nodes(), writer, of, c.o.MonitorPeriod, c.o.Workers)
	if err != nil {
		return fmt.Errorf("create node lifecycle controller: %w", err)
	}
	waiting := &taintRemover{
		keys: c.o.Cloud.Taints(), nodes: all.Core().V1().Nodes().Lister(), instances: of.instances, api: writer, log: c.o.Log,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	if err := waiting.watch(all.Core().V1().Nodes().Informer()); err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	all.Start(ctx.Done())
	defer all.Shutdown()
	if all.WaitForCacheSync(ctx.Done()); ctx.Err() != nil {
		return nil
	}
	c.o.Log.Info("running node controllers", "cloud", c.o.Cloud.Name())
	running := controllers.NewControllerManagerMetrics(component)
	var both sync.WaitGroup
	if !c.o.NoLifecycle {
		both.Go(func() { lifecycle.Run(ctx, running) })
	}
	if !c.o.NoInitializing {
		both.Go(func() { initializing.RunWithContext(ctx, running) })
		both.Go(func() { waiting.run(ctx) })
	}
	both.Wait()
	return nil
}

// unlimited leaves limiting to the API server's own fairness.
func unlimited(base *rest.Config) *rest.Config {
	c := rest.CopyConfig(base)
	c.QPS = -1
	return c
}

// slim drops what is large and nobody reads: the images on a node.
func slim(in any) (any, error) {
	if n, ok := in.(*corev1.Node); ok {
		n.ManagedFields, n.Status.Images = nil, nil
	}
	return in, nil
}
