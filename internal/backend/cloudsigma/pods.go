package cloudsigma

import (
	"context"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	compat "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/lb"
)

// Pod carries one address on a node that has no agent.
type Pod struct {
	Name    string
	UID     types.UID
	Address netip.Addr
	Node    string
	Image   string
	// Interface of the node; "" is the primary one.
	Interface string
	// Service is the cluster IP of the Service that the pod was made for.
	Service string

	Ended   bool // its containers have, for good
	Leaving bool // it is being deleted
}

// Pods are the pods that carry addresses. All methods may be called at the same time.
type Pods interface {
	// Get returns the pod of that name, nil if there is none.
	Get(ctx context.Context, name string) (*Pod, error)
	// Create makes a pod. It succeeds if there is one of that name.
	Create(ctx context.Context, p *Pod) error
	// Delete deletes a pod, which gets so much time to end. It succeeds if the pod is
	// gone.
	Delete(ctx context.Context, p *Pod, grace time.Duration) error
	// Run calls changed with the name of each pod that has come, changed or gone, until
	// ctx ends.
	Run(ctx context.Context, changed func(name string)) error
}

const (
	// podGrace is how long a pod may take to give up its address. Those of the original
	// do nothing in this time.
	podGrace = time.Second
	// podPause is when to look again whether a pod is gone, if nobody says so.
	podPause = 2 * time.Second
)

// podChange is what is to be done about the pod of an address.
type podChange uint8

const (
	podStays   podChange = iota
	podMade              // there is none
	podGoes              // it is not as it should be, and makes room for the next
	podKilled            // the same, on a node that cannot say when it has ended
	podAwaited           // it is about to go
)

// changeOf decides about the pod that there is, if any; want is nil if there is to be
// none, and dead says that the node of have is.
func changeOf(have, want *Pod, dead bool) podChange {
	switch {
	case have == nil && want == nil:
		return podStays
	case have == nil:
		return podMade
	case !have.Leaving && want != nil && have.fits(want):
		return podStays
	case dead:
		return podKilled
	case have.Leaving:
		return podAwaited
	}
	return podGoes
}

// fits says whether a pod does what another would.
func (p *Pod) fits(want *Pod) bool {
	return !p.Ended && p.Node == want.Node && p.Image == want.Image && p.Interface == want.Interface && p.Address == want.Address
}

// carry has one pod for each address of a Service on the node that carries it. An
// address that no node can carry keeps the pod that it has. again is when to look
// again; 0 if all is as it should be.
func (b *Backend) carry(ctx context.Context, s *lb.Service, seen *observation) (again time.Duration, err error) {
	if b.pods == nil {
		return 0, nil
	}
	for i := range seen.desired.Placed {
		p := &seen.desired.Placed[i]
		if p.Why != "" {
			continue
		}
		want := &Pod{Name: compat.PodName(p.Address), Address: p.Address, Node: p.Node, Image: b.podImage, Interface: b.podInterface, Service: s.ClusterIP}
		done, err := b.changePod(ctx, want.Name, want, seen.nodes)
		if err != nil {
			return 0, err
		}
		if !done {
			again = podPause
		}
	}
	return again, nil
}

// drop deletes the pods of addresses that nobody has any more.
func (b *Backend) drop(ctx context.Context, seen *observation) error {
	if b.pods == nil {
		return nil
	}
	for _, addr := range seen.desired.Free {
		if _, err := b.changePod(ctx, compat.PodName(addr), nil, seen.nodes); err != nil {
			return err
		}
	}
	return nil
}

// changePod does what is to be done about one pod. done says that it is as it should
// be: a pod that has to go first must be gone before the next can be made.
func (b *Backend) changePod(ctx context.Context, name string, want *Pod, nodes []candidate) (done bool, err error) {
	have, err := b.pods.Get(ctx, name)
	if err != nil {
		return false, err
	}
	switch changeOf(have, want, have != nil && isDead(have.Node, nodes)) {
	case podStays:
		return true, nil
	case podMade:
		return true, b.createPod(ctx, want)
	case podGoes:
		if err = b.pods.Delete(ctx, have, podGrace); err == nil {
			b.log.Info("Deleted pod", "pod", name, "node", have.Node, "image", have.Image)
		}
	case podKilled:
		if err = b.pods.Delete(ctx, have, 0); err != nil {
			break
		}
		b.log.Info("Deleted pod of a dead node", "pod", name, "node", have.Node)
		if want != nil { // its name is free at once, unless somebody holds on to it
			err = b.createPod(ctx, want)
		}
	case podAwaited:
	}
	return false, err
}

func (b *Backend) createPod(ctx context.Context, p *Pod) error {
	err := b.pods.Create(ctx, p)
	if err == nil {
		b.log.Info("Created pod", "pod", p.Name, "address", p.Address.String(), "node", p.Node)
	}
	return err
}

// isDead says whether nobody on a node can say that a pod has ended.
func isDead(name string, nodes []candidate) bool {
	for i := range nodes {
		if nodes[i].node.Name == name {
			return nodes[i].dead
		}
	}
	return true // it is gone
}

// recall finds out which node carried an address before this process: the Service says
// so or, where the original has served it, the pod.
func (b *Backend) recall(ctx context.Context, w *lb.Want) error {
	if b.pods == nil {
		return b.recallOld(ctx, w)
	}
	for _, addr := range w.Verdict.Addresses {
		if b.placed(addr) {
			continue
		}
		node := ""
		if c := w.Service.Carriers[addr]; len(c) == 1 && c[0] != lb.AnyNode {
			node = c[0]
		} else {
			have, err := b.pods.Get(ctx, compat.PodName(addr))
			if err != nil {
				return err
			}
			if have != nil {
				node = have.Node
			}
		}
		if node != "" {
			b.mu.Lock()
			b.chosen[addr] = node
			b.mu.Unlock()
		}
	}
	return nil
}

// placed says whether this process has decided about the node of an address.
func (b *Backend) placed(addr netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := b.chosen[addr]
	return known
}

// servicesOf are the Services whose address a pod carries.
func (b *Backend) servicesOf(pod string) (out []types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.memos {
		for _, addr := range m.wants {
			if compat.PodName(addr) == pod {
				out = append(out, m.key)
			}
		}
	}
	return out
}
