package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/write"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

const (
	// eventsKept bounds what waits while the API server is away.
	eventsKept = 1000
	// eventsPerSecond is how many an agent writes at most.
	eventsPerSecond = 50
)

// reporter writes the Agent object and events, in its own time.
type reporter struct {
	writing sync.Mutex // a later report is not overtaken by an earlier one
	node    string
	uid     types.UID // of the Node
	kube    kubernetes.Interface
	client  client.Client
	log     *slog.Logger
	// observer has words of its own for events of some pools.
	observer Observer

	mu      sync.Mutex
	status  *v1alpha1.AgentStatus
	events  []*corev1.Event
	arrived chan struct{}
}

func newReporter(node string, uid types.UID, kube kubernetes.Interface, c client.Client, log *slog.Logger, observer Observer) *reporter {
	return &reporter{node: node, uid: uid, kube: kube, client: c, log: log, observer: observer, arrived: make(chan struct{}, 1)}
}

func (r *reporter) set(s v1alpha1.AgentStatus) {
	r.mu.Lock()
	r.status = &s
	r.mu.Unlock()
	write.Wake(r.arrived)
}

// event writes an event on a Service, in the words of the observer of its pool.
func (r *reporter) event(of *lb.Request, pool lb.PoolKey, reason lb.Reason) {
	code, source := string(reason.Code), "fairlead-agent"
	if r.observer.Observes(pool) {
		code, source = r.observer.Event(reason)
	}
	e := kubeapi.Event{
		About: kubeapi.ServiceReference(of.Service, of.UID), Warning: reason.Warning(), Reason: code, Message: reason.Text,
		Component: source, Node: r.node, At: time.Now(),
	}.Object()
	r.mu.Lock()
	r.keep(append(r.events, e))
	r.mu.Unlock()
	write.Wake(r.arrived)
}

// keep has events wait, of too many the latest.
func (r *reporter) keep(events []*corev1.Event) {
	r.events = events[max(0, len(events)-eventsKept):]
}

// pass writes what there is.
func (r *reporter) pass(ctx context.Context) (more bool, err error) { return false, r.write(ctx) }

func (r *reporter) write(ctx context.Context) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.mu.Lock()
	status, events := r.status, r.events
	r.status, r.events = nil, nil
	r.mu.Unlock()
	if status != nil {
		if err := r.writeStatus(ctx, *status); err != nil {
			r.mu.Lock()
			if r.status == nil {
				r.status = status
			}
			r.keep(append(events, r.events...))
			r.mu.Unlock()
			return err
		}
	}
	for i, e := range events {
		if _, err := r.kube.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil && !write.Refused(err) {
			r.mu.Lock()
			r.keep(append(events[i:], r.events...))
			r.mu.Unlock()
			return err
		}
	}
	return nil
}

// writeStatus writes the Agent object's status, and makes the object if it is
// not there.
func (r *reporter) writeStatus(ctx context.Context, s v1alpha1.AgentStatus) error {
	var have v1alpha1.Agent
	err := r.client.Get(ctx, types.NamespacedName{Name: r.node}, &have)
	if apierrors.IsNotFound(err) {
		// It goes with its Node.
		have = v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: r.node, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: r.node, UID: r.uid}}}}
		err = r.client.Create(ctx, &have)
	}
	if err != nil {
		return err
	}
	if old := meta.FindStatusCondition(have.Status.Conditions, "Ready"); old != nil && old.Status == s.Conditions[0].Status {
		s.Conditions[0].LastTransitionTime = old.LastTransitionTime
	}
	return write.PatchStatus(ctx, r.client, &have, map[string]any{"announced": s.Announced, "addresses": s.Addresses, "leases": s.Leases, "conditions": s.Conditions})
}
