package nodes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"fairlead.io/internal/lb"
)

type answers struct {
	cloudprovider.InstancesV2
	metadata *cloudprovider.InstanceMetadata
	err      error
}

func (a *answers) InstanceMetadata(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return a.metadata, a.err
}

func withTaint(n *corev1.Node) *corev1.Node {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	return n
}

func withNodeIP(n *corev1.Node, ips string) *corev1.Node {
	n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: ips}
	return n
}

func TestComplaint(t *testing.T) {
	known := &cloudprovider.InstanceMetadata{NodeAddresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "worker-1"}, {Type: corev1.NodeExternalIP, Address: "5.1.2.3"}, {Type: corev1.NodeInternalIP, Address: "10.1.1.1"},
		{Type: corev1.NodeInternalIP, Address: "fd00::1"},
	}}
	refused := &refusal{reason: Reasons.Say(NodeForeign, "worker-1", "x", "y", "z"), cause: errors.New("x")}
	plain := func() *corev1.Node { return newNode("worker-1", "") }
	for _, test := range []struct {
		name     string
		node     *corev1.Node
		metadata *cloudprovider.InstanceMetadata
		err      error
		code     lb.Code
		says     []string
	}{
		{"all is well", withTaint(plain()), known, nil, "", nil},
		{"known address", withTaint(withNodeIP(plain(), "10.1.1.1")), known, nil, "", nil},
		{"two known addresses", withTaint(withNodeIP(plain(), "10.1.1.1,fd00::1")), known, nil, "", nil},
		{"unknown address", withTaint(withNodeIP(plain(), "10.9.9.9")), known, nil, NodeAddressUnknown, []string{"node worker-1", "10.9.9.9", "5.1.2.3, 10.1.1.1, fd00::1", "stays uninitialized"}},
		{"one of two", withTaint(withNodeIP(plain(), "10.1.1.1,fd00::9")), known, nil, NodeAddressUnknown, []string{"10.1.1.1, fd00::9"}},
		{"of a node at work", withNodeIP(plain(), "10.9.9.9"), known, nil, NodeAddressUnknown, []string{"no longer updated"}},
		{"no addresses", withNodeIP(plain(), "10.9.9.9"), &cloudprovider.InstanceMetadata{}, nil, NodeAddressUnknown, []string{"knows the server by none"}},
		{"foreign", withTaint(plain()), nil, refused, NodeForeign, nil},
		{"foreign, and at work", plain(), nil, refused, "", nil},
		{"the cloud is away", withTaint(withNodeIP(plain(), "10.9.9.9")), nil, errors.New("away"), "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, is := complaint(test.node, test.metadata, test.err)
			if is != (test.code != "") || is && got.Code != test.code {
				t.Errorf("tells %v %v, want %s", is, got, test.code)
			}
			for _, s := range test.says {
				if !strings.Contains(got.Text, s) {
					t.Errorf("%q does not say %q", got.Text, s)
				}
			}
		})
	}
}

// A reason is told when it is new, and now and then.
func TestToldOnce(t *testing.T) {
	now := time.Unix(0, 0)
	var got []string
	a := &answers{}
	told := &eventInstances{InstancesV2: a, now: func() time.Time { return now }, tell: func(n *corev1.Node, r lb.Reason) { got = append(got, n.Name+" "+string(r.Code)) }}
	ask := func(name string, err error) {
		n := withTaint(newNode(name, ""))
		n.UID = types.UID(name)
		if a.err = err; err == nil {
			a.metadata = &cloudprovider.InstanceMetadata{}
		}
		if _, gotErr := told.InstanceMetadata(t.Context(), n); !errors.Is(gotErr, err) {
			t.Errorf("error %v", gotErr)
		}
	}
	foreign := &refusal{reason: Reasons.Say(NodeForeign, "a", "x", "y", "z"), cause: errors.New("x")}
	missing := &refusal{reason: Reasons.Say(NodeNotFound, "a", "x", "y"), cause: errors.New("x")}
	for range 3 {
		ask("a", foreign)
	}
	ask("a", missing)
	ask("a", errors.New("away")) // says nothing of the node
	ask("a", missing)
	ask("a", nil)
	ask("a", missing)
	now = now.Add(reportAgain)
	ask("a", missing)
	if diff := cmp.Diff([]string{"a NodeForeign", "a NodeNotFound", "a NodeNotFound", "a NodeNotFound"}, got); diff != "" {
		t.Error(diff)
	}
}
