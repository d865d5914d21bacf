package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/agentsim"
	"fairlead.io/test/kit/rig"
)

// An agent reports what its node has. An object that somebody deletes is made again,
// with all that it said.
func TestObjectGone(t *testing.T) {
	a := newAgents(t, false)
	a.start("198.51.100.1", "gone-1")
	a.ready("started", "gone-1")
	first, err := a.get("gone-1")
	if err != nil {
		t.Fatal(err)
	}
	s := first.Status
	if s.Version != agentsim.Version || s.KubeProxy != "Absent" || len(s.Interfaces) != 1 || fmt.Sprint(s.Interfaces[0].Addresses) != "[198.51.100.1/16]" {
		t.Errorf("status %+v", s)
	}
	if err := theRig.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "the object is back", func() error {
		o, err := a.get("gone-1")
		if err == nil && (o.UID == first.UID || o.Status.Version != agentsim.Version || len(o.OwnerReferences) != 1) {
			err = fmt.Errorf("%+v", o)
		}
		return err
	})
	a.ready("made again", "gone-1")
}

// A Node that is deleted and made again is another one: the Agent object belongs to that,
// and does not go with the former.
func TestNodeMadeAnew(t *testing.T) {
	a := newAgents(t, false)
	a.start("198.51.100.1", "anew-1")
	a.ready("started", "anew-1")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "anew-1"}}
	if err := theRig.Client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "anew-1"}}
	if err := theRig.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.51.100.1"}}
	if err := theRig.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	o, err := a.get("anew-1")
	if err == nil {
		err = theRig.Client.Delete(t.Context(), o) // as the garbage collector does
	}
	if err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "the object is the new Node's", func() error {
		o, err := a.get("anew-1")
		if err == nil && (len(o.OwnerReferences) != 1 || o.OwnerReferences[0].UID != node.UID || o.Status.Version != agentsim.Version) {
			err = fmt.Errorf("%+v, and the Node is %s", o, node.UID)
		}
		return err
	})
}

// patch writes into an Agent's status, as somebody else.
func patch(name, status string) error {
	o := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return theRig.Client.Status().Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(`{"status": `+status+`}`)))
}

const unknown = `{"lost": ["x"], "conditions": [{"type": "Ready", "status": "Unknown", "reason": "Lost", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}`

// What somebody else writes into the status does not stand: the controller marks agents
// that it believes dead, and one that is alive says so.
func TestMarkedUnknown(t *testing.T) {
	a := newAgents(t, false)
	a.start("198.51.100.1", "marked-1")
	a.ready("started", "marked-1")
	if err := patch("marked-1", unknown); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "the agent says what is so", func() error {
		o, err := a.get("marked-1")
		if err == nil && (len(o.Status.Lost) > 0 || o.Status.Conditions[0].Reason != "AgentReady") {
			err = fmt.Errorf("%+v", o.Status)
		}
		return err
	})
}

// meddler does something to requests that write a status.
type meddler struct {
	next http.RoundTripper
	do   func(*http.Request, func(*http.Request) (*http.Response, error)) (*http.Response, error)
}

func (m *meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/status") {
		return m.next.RoundTrip(r)
	}
	return m.do(r, m.next.RoundTrip)
}

// A write whose answer is lost, one that does not arrive, and one that somebody else
// precedes: the object says in the end what is so.
func TestWritesThatGoWrong(t *testing.T) {
	for name, do := range map[string]func(n int32, r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error){
		"answer lost": func(n int32, r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
			answer, err := send(r)
			if err == nil && n <= 2 {
				_ = answer.Body.Close()
				return nil, errors.New("connection reset by peer")
			}
			return answer, err
		},
		"time-out": func(n int32, r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
			if n == 1 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return send(r)
		},
		"conflict": func(n int32, r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
			if n == 1 {
				return &http.Response{StatusCode: http.StatusConflict, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
					Body: io.NopCloser(bytes.NewBufferString(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`))}, nil
			}
			return send(r)
		},
		"somebody else writes before": func(n int32, r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
			if n == 1 {
				node := strings.Split(r.URL.Path, "/")
				if err := patch(node[len(node)-2], unknown); err != nil {
					return nil, err
				}
			}
			return send(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgents(t, false)
			var count atomic.Int32
			a.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return &meddler{next, func(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
					return do(count.Add(1), r, send)
				}}
			})
			node := "wrong-" + strings.ReplaceAll(name, " ", "-")
			a.start("198.51.100.1", node)
			rig.Eventually(t, "the status is written", func() error {
				o, err := a.get(node)
				if err == nil && (len(o.Status.Conditions) != 1 || o.Status.Conditions[0].Reason != "AgentReady" || len(o.Status.Lost) > 0 || o.Status.Version == "") {
					err = fmt.Errorf("%+v", o.Status)
				}
				return err
			})
		})
	}
}

// A death is reported by three agents, with one write each; the others write nothing.
func TestDeathIsReportedByThree(t *testing.T) {
	a := newAgents(t, false)
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("death-%d", i))
	}
	a.start("198.51.100.1", names...)
	a.ready("started", names...)
	before := a.writes()
	a.gossip.Kill(names[0])
	lost := func() (out []string) {
		for _, name := range names[1:] {
			if o, err := a.get(name); err == nil && fmt.Sprint(o.Status.Lost) == "["+names[0]+"]" {
				out = append(out, name)
			}
		}
		return out
	}
	rig.Eventually(t, "three agents report the death", func() error {
		if all := lost(); len(all) != 3 {
			return fmt.Errorf("reported by %v", all)
		}
		return nil
	})
	// Whoever had something else to write has done so when the next death is reported.
	a.gossip.Kill(names[1])
	rig.Eventually(t, "the next death is reported, too", func() error {
		reported := 0
		for _, name := range names[2:] {
			if o, err := a.get(name); err == nil && strings.Contains(fmt.Sprint(o.Status.Lost), names[1]) {
				reported++
			}
		}
		if reported != 3 {
			return fmt.Errorf("reported by %d", reported)
		}
		return nil
	})
	total := 0
	for name, n := range a.writes() {
		total += n - before[name]
	}
	// If the second to die was a reporter of the first, another one follows it.
	if total > 7 {
		t.Errorf("two deaths among 12 agents cost %d writes, want 6 or 7", total)
	}
}

// Agents that start at the same moment in an empty cluster find each other by real
// gossip, and so does one that comes later.
func TestAgentsFindEachOther(t *testing.T) {
	a := newAgents(t, true)
	found := func(want int) func() error {
		return func() error {
			for name, registry := range a.members {
				if n := gauge(registry, "fairlead_agent_members"); n != float64(want) {
					return fmt.Errorf("%s knows %v members, want %d", name, n, want)
				}
			}
			return nil
		}
	}
	a.start("127.0.7.1", "met-1", "met-2", "met-3")
	rig.Eventually(t, "three know each other", found(3))
	a.start("127.0.7.4", "met-4")
	rig.Eventually(t, "the fourth is known", found(4))
}

// gauge returns the value of a metric without labels; -1 if there is none.
func gauge(from interface {
	Gather() ([]*dto.MetricFamily, error)
}, name string) float64 {
	families, err := from.Gather()
	if err != nil {
		return -1
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}
