package nodes

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodehelpers "k8s.io/cloud-provider/node/helpers"

	"fairlead.io/internal/lb"
)

// refusal is an error that a user can do something about.
type refusal struct {
	reason lb.Reason
	cause  error
}

func (r *refusal) Error() string { return r.cause.Error() + ": " + r.reason.Text }
func (r *refusal) Unwrap() error { return r.cause }

// reportAgain is how often a reason is reported for a Node that still has it: the API
// server forgets events after an hour.
const reportAgain = 50 * time.Minute

// eventInstances reports by events what the controllers only log: why a Node stays
// uninitialized, or does not get its addresses.
type eventInstances struct {
	cloudprovider.InstancesV2
	tell func(*corev1.Node, lb.Reason)
	now  func() time.Time

	mu   sync.Mutex
	told map[types.UID]told
}

type told struct {
	reason lb.Reason
	at     time.Time
}

// InstanceMetadata says what the Node's server is.
func (t *eventInstances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	m, err := t.InstancesV2.InstanceMetadata(ctx, node)
	if reason, is := complaint(node, m, err); is {
		t.once(node, reason)
	} else if err == nil {
		t.forget(node)
	}
	return m, err
}

// complaint is what there is to tell about a Node. A Node that is initialized
// does without the cloud: in a mixed cluster it may be in another one.
func complaint(node *corev1.Node, m *cloudprovider.InstanceMetadata, err error) (lb.Reason, bool) {
	if r, is := errors.AsType[*refusal](err); is {
		return r.reason, uninitialized(node)
	}
	provided, given := node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]
	if err != nil || !given {
		return lb.Reason{}, false
	}
	if _, err := nodehelpers.GetNodeAddressesFromNodeIP(provided, m.NodeAddresses); err == nil {
		return lb.Reason{}, false
	}
	then := "its addresses are no longer updated"
	if uninitialized(node) {
		then = "it stays uninitialized"
	}
	return Reasons.Say(NodeAddressUnknown, node.Name, strings.ReplaceAll(provided, ",", ", "), listIPs(m.NodeAddresses), then), true
}

func uninitialized(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == cloudproviderapi.TaintExternalCloudProvider {
			return true
		}
	}
	return false
}

func listIPs(addresses []corev1.NodeAddress) string {
	var out []string
	for _, a := range addresses {
		if a.Type == corev1.NodeExternalIP || a.Type == corev1.NodeInternalIP {
			out = append(out, a.Address)
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// once reports a reason that is new on this Node, or was reported long ago.
func (t *eventInstances) once(node *corev1.Node, r lb.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for uid, before := range t.told { // also of Nodes that are gone
		if now.Sub(before.at) >= reportAgain {
			delete(t.told, uid)
		}
	}
	if t.told[node.UID].reason == r {
		return
	}
	if t.told == nil {
		t.told = map[types.UID]told{}
	}
	t.told[node.UID] = told{r, now}
	t.tell(node, r)
}

func (t *eventInstances) forget(node *corev1.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.told, node.UID)
}
