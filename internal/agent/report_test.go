package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

func requestOf(name string) *lb.Request {
	return &lb.Request{Service: types.NamespacedName{Namespace: "shop", Name: name}, UID: "u"}
}

// While the API server is away, events wait, but not more and more.
func TestEventsThatWaitAreBounded(t *testing.T) {
	kube := fake.NewClientset()
	r := newReporter("a", kube, nil, slog.New(slog.DiscardHandler), nobody{})
	add := func(n int) {
		for range n {
			r.event(requestOf("web"), lb.PoolKey{}, lb.Announced.With(vip, "a", "eth0"))
		}
	}
	kube.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		add(eventsKept / 2) // meanwhile
		return true, nil, errors.New("the API server is away")
	})
	for range 3 {
		add(eventsKept - 1)
		if err := r.write(t.Context()); err == nil {
			t.Fatal("written")
		}
		add(eventsKept / 2)
		if n := len(r.events); n > eventsKept {
			t.Fatalf("%d events wait, want %d at most", n, eventsKept)
		}
	}
}

// An event that the API server refuses does not hold up the others.
func TestRefusedEventIsDropped(t *testing.T) {
	kube := fake.NewClientset()
	r := newReporter("a", kube, nil, slog.New(slog.DiscardHandler), nobody{})
	var written []string
	kube.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		e := action.(clienttesting.CreateAction).GetObject().(*corev1.Event)
		if e.InvolvedObject.Name == "bad" {
			return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, e.Name, nil)
		}
		written = append(written, e.InvolvedObject.Name)
		return true, e, nil
	})
	for _, name := range []string{"bad", "good"} {
		r.event(requestOf(name), lb.PoolKey{}, lb.Announced.With(vip, "a", "eth0"))
	}
	if err := r.write(context.Background()); err != nil {
		t.Fatal(err)
	}
	same(t, "written", written, "[good]")
}

// The Agent object takes so many Services of an address and not more.
func TestReportOfAnAddressThatManyShare(t *testing.T) {
	a := newTestAgent(t)
	for i := range 100 {
		put(a.directory, serviceOf(fmt.Sprintf("s%d", i), 2, "key", int32(i+1), "192.0.2.20"))
	}
	for _, address := range addrs("192.0.2.20", "192.0.2.21") {
		a.held[address] = &holding{up: true, ifaces: []string{"eth0"}}
	}
	a.reportDirty = true
	a.report(time.Now())
	got := a.reporter.status.Addresses
	if len(got) != 2 || len(got[0].Services) != maxServices || got[1].Services == nil {
		t.Errorf("%+v", got)
	}
}

// patchedClient is an API server that accepts patches of the status of an Agent.
type patchedClient struct {
	client.Client
	status patchedStatus
}

func (c *patchedClient) Status() client.SubResourceWriter { return &c.status }

type patchedStatus struct {
	client.SubResourceWriter
	patched int
	// written is called after a patch, before the client has the answer.
	written func()
}

func (c *patchedStatus) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	c.patched++
	o.SetResourceVersion(strconv.Itoa(c.patched))
	c.written()
	return json.Unmarshal(data, o)
}

// An object that is deleted just after it was written is written again, even if the deletion
// is seen before the answer to the write.
func TestObjectGoneBeforeAnswer(t *testing.T) {
	c := &patchedClient{}
	r := newReporter("a", nil, c, slog.New(slog.DiscardHandler), nobody{})
	c.status.written = func() {
		if c.status.patched == 1 {
			r.observe(nil)
		}
	}
	r.set(v1alpha1.AgentStatus{Version: "v1", Conditions: []metav1.Condition{{Type: "Ready", Status: "True"}}})
	for i, want := range []int{1, 2, 2} {
		if err := r.write(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.status.patched != want {
			t.Errorf("after pass %d there were %d writes, want %d", i+1, c.status.patched, want)
		}
	}
}
