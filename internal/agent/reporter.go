package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
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
	kube    kubernetes.Interface
	client  client.Client
	log     *slog.Logger
	// observer has words of its own for events of some pools.
	observer Observer

	mu sync.Mutex
	// status is what the object should say, have what it says as far as is known, as of
	// that version; nil is nothing.
	status, have *v1alpha1.AgentStatus
	version      string
	// gone counts how often the object was seen to be gone.
	gone int
	// repairAt is when what somebody else wrote is written over, the earliest; changed
	// is whether there is something to write over.
	repairAt time.Time
	changed  bool
	events   []*corev1.Event
	arrived  chan struct{}
}

func newReporter(node string, kube kubernetes.Interface, c client.Client, log *slog.Logger, observer Observer) *reporter {
	return &reporter{node: node, kube: kube, client: c, log: log, observer: observer, arrived: make(chan struct{}, 1)}
}

func (r *reporter) set(s v1alpha1.AgentStatus) {
	r.mu.Lock()
	r.status = &s
	differs := len(changesOf(r.have, r.status)) > 0
	r.mu.Unlock()
	if differs {
		write.Wake(r.arrived)
	}
}

// observe takes over what the object says now; nil is one that is gone. What somebody
// else changed is written again by repair: the controller marks agents that it believes
// dead.
func (r *reporter) observe(o *v1alpha1.Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o == nil {
		r.have, r.version = nil, ""
		r.gone++
	} else {
		if age, err := resourceversion.CompareResourceVersion(o.ResourceVersion, r.version); err == nil && age < 0 {
			return // of before our last write
		}
		r.keepObject(o)
	}
	r.changed = r.status != nil && len(changesOf(r.have, r.status)) > 0
}

// repairPause is the least time between two times that what somebody else wrote is
// written over: if the controller does not believe this agent, they must not fight.
const repairPause = 30 * time.Second

// repair writes over what somebody else wrote, if it is time.
func (r *reporter) repair(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.changed || now.Before(r.repairAt) {
		return
	}
	r.changed, r.repairAt = false, now.Add(repairPause)
	write.Wake(r.arrived)
}

func (r *reporter) keepObject(o *v1alpha1.Agent) {
	r.have, r.version = o.Status.DeepCopy(), o.ResourceVersion
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
	if err := r.writeStatus(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	events := r.events
	r.events = nil
	r.mu.Unlock()
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

// writeStatus writes what has changed of the status, in one patch, and makes the
// object if it is not there. If nothing has changed, nothing is asked of the API
// server.
func (r *reporter) writeStatus(ctx context.Context) error {
	r.mu.Lock()
	gone := r.gone
	var fields map[string]any
	if r.status != nil {
		fields = changesOf(r.have, r.status)
	}
	r.mu.Unlock()
	if len(fields) == 0 {
		return nil
	}
	o := v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: r.node}}
	err := write.PatchStatus(ctx, r.client, &o, fields)
	if apierrors.IsNotFound(err) {
		r.mu.Lock()
		r.have, r.version = nil, ""
		fields = changesOf(nil, r.status)
		r.mu.Unlock()
		// The Node may be another one by now: an Agent of one that is gone goes with it.
		var self corev1.Node
		if err := r.client.Get(ctx, client.ObjectKey{Name: r.node}, &self); err != nil {
			return err
		}
		if err = createAgent(ctx, r.client, &self); err == nil || apierrors.IsAlreadyExists(err) {
			err = write.PatchStatus(ctx, r.client, &o, fields)
		}
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone != gone {
		// It may have been deleted after this write: the answer does not show that it is there.
		write.Wake(r.arrived)
		return nil
	}
	if age, err := resourceversion.CompareResourceVersion(o.ResourceVersion, r.version); err != nil || age > 0 {
		r.keepObject(&o)
	}
	return nil
}
