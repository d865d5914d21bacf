package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
)

// register makes this node's Agent object if it is not there, and then returns the
// names of all. Because of this order, at least one of two agents that start at the
// same time finds the other. Nobody has to watch for agents that come later: these
// find the ones that are there.
func register(ctx context.Context, c client.Client, self *corev1.Node) ([]string, error) {
	if err := createAgent(ctx, c, self); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	return listAgents(ctx, c)
}

// meetAgents is register, again until the API server answers.
func meetAgents(ctx context.Context, c client.Client, self *corev1.Node, log *slog.Logger) (*known, error) {
	for logged := false; ; {
		names, err := register(ctx, c, self)
		if err == nil {
			return newKnown(names...), nil
		}
		if !logged {
			log.Warn("agents of other nodes not found; trying again", "error", err)
			logged = true
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// createAgent makes the Agent object of a node. It goes with its Node.
func createAgent(ctx context.Context, c client.Client, node *corev1.Node) error {
	return c.Create(ctx, &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}}})
}

// listAgents returns the names of all Agent objects, without what they say.
func listAgents(ctx context.Context, c client.Reader) (names []string, err error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AgentList"))
	err = c.List(ctx, &list)
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, err
}

// known are the nodes that have, or had, an agent: those that had an Agent object when
// this agent started, and those that were members since. All methods may be called at
// the same time.
type known struct {
	mu    sync.Mutex
	names sets.Set[string]
	// strangers are nodes of which nothing is known.
	strangers sets.Set[string]
	// came has a value after a node has come of which nothing is known.
	came chan struct{}
}

func newKnown(names ...string) *known {
	return &known{names: sets.New(names...), strangers: sets.New[string](), came: make(chan struct{}, 1)}
}

// add notes that these nodes have an agent, and says whether that is news.
func (k *known) add(names ...string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := len(k.names)
	k.names.Insert(names...)
	return len(k.names) > before
}

func (k *known) has(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.names.Has(name)
}

// setStrangers takes over which nodes have no agent, as far as is known.
func (k *known) setStrangers(now sets.Set[string]) {
	k.mu.Lock()
	news := len(now.Difference(k.strangers)) > 0
	k.strangers = now
	k.mu.Unlock()
	if news {
		select {
		case k.came <- struct{}{}:
		default:
		}
	}
}

const (
	// soonest and latest are the pauses between two searches for agents of nodes that
	// have none, as far as is known. Such an agent finds the others by itself, unless
	// it can be reached and cannot reach anybody.
	soonest = 5 * time.Second
	latest  = 5 * time.Minute
)

// search asks for the names of all agents while there are nodes without one, less and
// less often, until ctx ends. It calls found after some were new.
func (k *known) search(ctx context.Context, list func(context.Context) ([]string, error), found func()) {
	pause := soonest
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.came:
			pause = soonest
		case <-timer.C:
			k.mu.Lock()
			search := len(k.strangers) > 0
			k.mu.Unlock()
			if search {
				if names, err := list(ctx); err == nil && k.add(names...) {
					found()
				}
			}
			pause = min(2*pause, latest)
		}
		timer.Reset(pause)
	}
}
