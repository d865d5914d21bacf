package metallb

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/internal/agent"
	"fairlead.io/internal/agent/write"
)

const (
	// maxL2Steps is how much is done about ServiceL2Status objects in one pass, of
	// which there is at most one a second: a node that takes over a thousand
	// Services must not keep the API server busy.
	maxL2Steps = 100
	// maxL2Names is how many names fit into one question; of more, all is asked.
	maxL2Names = 100
)

// l2Statuses keeps the ServiceL2Status objects of this node in line with what it
// announces.
type l2Statuses struct {
	node, namespace string
	client          client.Client
	owner           ownership
	arrived         chan struct{}

	mu   sync.Mutex
	want map[types.NamespacedName]agent.Presence

	passing sync.Mutex
	done    map[types.NamespacedName]agent.Presence // for which everything was done
}

func (l *l2Statuses) set(want map[types.NamespacedName]agent.Presence) {
	l.mu.Lock()
	same := maps.EqualFunc(want, l.want, agent.Presence.Equal)
	l.want = want
	l.mu.Unlock()
	if !same {
		write.Wake(l.arrived)
	}
}

// finish removes the node's objects.
func (l *l2Statuses) finish(ctx context.Context) error {
	l.set(nil)
	for {
		if more, err := l.pass(ctx); !more || err != nil {
			return err
		}
	}
}

// pass does some of what is to be done, and says whether there is more.
func (l *l2Statuses) pass(ctx context.Context) (more bool, err error) {
	l.passing.Lock()
	defer l.passing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	l.mu.Lock()
	want := l.want
	l.mu.Unlock()
	owner, err := l.owner.reference(ctx)
	if err != nil {
		return false, err
	}
	have, err := l.list(ctx, unsettled(want, l.done))
	if err != nil {
		return false, err
	}
	steps := planL2(l.node, owner.UID, want, have)
	for _, s := range steps[:min(len(steps), maxL2Steps)] {
		if err := l.do(ctx, s, owner, want[s.service]); err != nil && !write.Refused(err) {
			return false, err
		}
	}
	if len(steps) > maxL2Steps {
		return true, nil
	}
	l.done = want
	return false, nil
}

// list returns the node's objects, and those of other nodes for Services of these
// names.
func (l *l2Statuses) list(ctx context.Context, names []string) ([]apimetallb.ServiceL2Status, error) {
	ask := func(key string, op selection.Operator, values ...string) ([]apimetallb.ServiceL2Status, error) {
		r, err := labels.NewRequirement(key, op, values)
		if err != nil {
			return nil, err
		}
		var list apimetallb.ServiceL2StatusList
		err = l.client.List(ctx, &list, client.InNamespace(l.namespace), client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*r)})
		return list.Items, err
	}
	all, err := ask(apimetallb.LabelNode, selection.Equals, l.node)
	if err != nil || len(names) == 0 {
		return all, err
	}
	key, op, values := apimetallb.LabelServiceName, selection.In, names
	if len(names) > maxL2Names {
		key, op, values = apimetallb.LabelNode, selection.NotEquals, []string{l.node}
	}
	others, err := ask(key, op, values...)
	others = slices.DeleteFunc(others, func(o apimetallb.ServiceL2Status) bool { return o.Labels[apimetallb.LabelNode] == l.node })
	return append(all, others...), err
}

func (l *l2Statuses) do(ctx context.Context, s l2Step, owner metav1.OwnerReference, p agent.Presence) error {
	o := &apimetallb.ServiceL2Status{}
	o.Namespace, o.Name = l.namespace, s.object
	switch s.verb {
	case "delete":
		return l.client.Delete(ctx, o)
	case "create":
		o = l2Object(l.namespace, l.node, owner, s.service)
		if err := l.client.Create(ctx, o); err != nil {
			return err
		}
	}
	status := l2Status(l.node, s.service, p)
	return write.PatchStatus(ctx, l.client, o, map[string]any{
		"node": status.Node, "serviceName": status.ServiceName, "serviceNamespace": status.ServiceNamespace, "interfaces": status.Interfaces,
	})
}
