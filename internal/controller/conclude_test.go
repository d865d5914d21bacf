package controller

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// written are the patches that an API server got.
func written(api *fake.Clientset) (out []string) {
	for _, a := range api.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok {
			out = append(out, strings.TrimSpace(p.GetSubresource()+" "+string(p.GetPatch())))
		}
	}
	api.ClearActions()
	return out
}

// conclusion is what conclude needs.
type conclusion struct {
	*services
	api  *fake.Clientset
	want lb.Want
	memo memo
}

func newConclusion(s *corev1.Service) *conclusion {
	api := fake.NewClientset(s)
	api.ClearActions()
	c := &services{common: commonOf(classesOf(config.Default(), nil), nil, api), name: config.Announce, backend: &Backend{Backend: idle{}}}
	return &conclusion{services: c, api: api, want: lb.Want{Service: *kubeapi.Service(s)}}
}

func (c *conclusion) look(ctx context.Context, t *testing.T, out lb.Outcome) (again time.Duration) {
	t.Helper()
	again, err := c.conclude(ctx, &c.want, &c.memo, lb.Held{}, &out)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// Nothing is written of what passes, or what would be done; it is told all the same.
func TestConcludeWritesOnlyWhatIsSo(t *testing.T) {
	says := lb.Outcome{Reason: full, Condition: lb.ConditionSays}
	for name, test := range map[string]struct {
		change func(*conclusion, *lb.Outcome)
		writes int
	}{
		"it is so":       {func(*conclusion, *lb.Outcome) {}, 1},
		"it passes":      {func(_ *conclusion, out *lb.Outcome) { out.Passing = true }, 0},
		"it would be so": {func(c *conclusion, _ *lb.Outcome) { c.want.DryRun = true }, 0},
	} {
		c, out := newConclusion(serviceOf("web", "", false)), says
		test.change(c, &out)
		c.look(t.Context(), t, out)
		if got := written(c.api); len(got) != test.writes {
			t.Errorf("%s: written %q", name, got)
		}
		if got := told(c.events); len(got) != 1 {
			t.Errorf("%s: told %q", name, got)
		}
	}
}

// A Service that is found as it should be, without our condition, was told so long
// ago. Where something had to be written, it is told.
func TestConcludeRepeatsNothing(t *testing.T) {
	c := newConclusion(serviceOf("web", "", false))
	c.look(t.Context(), t, lb.Outcome{Reason: fine})
	if events, writes := told(c.events), written(c.api); len(events)+len(writes) > 0 {
		t.Errorf("as it should be: told %q, written %q", events, writes)
	}
	c.look(t.Context(), t, lb.Outcome{Reason: full})
	if events := told(c.events); len(events) != 1 {
		t.Errorf("a change: told %q", events)
	}
	c = newConclusion(serviceOf("web", "", false))
	c.look(t.Context(), t, lb.Outcome{Reason: fine, Marks: lb.Marks{Labels: map[string]string{"a": "b"}}})
	if events, writes := told(c.events), written(c.api); len(events) != 1 || len(writes) != 1 {
		t.Errorf("not as it should be: told %q, written %q", events, writes)
	}
}

// The answer to a write may be lost. Then it is told when the Service is found as it
// was written.
func TestConcludeTellsOfLostWrites(t *testing.T) {
	c := newConclusion(serviceOf("web", "", false))
	lost := true
	c.api.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return lost, nil, apierrors.NewTimeoutError("away", 1)
	})
	out := lb.Outcome{Reason: fine, Marks: lb.Marks{Labels: map[string]string{"a": "b"}}}
	if _, err := c.conclude(t.Context(), &c.want, &c.memo, lb.Held{}, &out); err == nil {
		t.Error("no error")
	}
	if events := told(c.events); len(events) > 0 {
		t.Errorf("nobody knows whether it was written: told %q", events)
	}
	lost, c.want.Service.Labels = false, map[string]string{"a": "b"}
	c.look(t.Context(), t, out)
	if events := told(c.events); len(events) != 1 {
		t.Errorf("it was: told %q", events)
	}
}

// What somebody else has written at the same moment is looked at again soon, and
// nothing is told yet.
func TestConcludeAfterAConflict(t *testing.T) {
	for name, wrong := range map[string]error{
		"a conflict": apierrors.NewConflict(schema.GroupResource{}, "web", nil),
		"it is gone": apierrors.NewNotFound(schema.GroupResource{}, "web"),
	} {
		c := newConclusion(serviceOf("web", "", false))
		c.api.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, wrong })
		if again := c.look(t.Context(), t, lb.Outcome{Reason: full, Condition: lb.ConditionSays}); again != conflictRetry {
			t.Errorf("%s: again after %v", name, again)
		}
		if events := told(c.events); len(events) > 0 || c.memo.written != "" {
			t.Errorf("%s: told %q, written %q", name, events, c.memo.written)
		}
	}
}

// What is left of a Service outside is forgotten when it is gone.
func TestConcludeForgetsWhatIsGone(t *testing.T) {
	c := newConclusion(serviceOf("web", "", false))
	b := &forgetful{}
	c.backend.Backend = b
	c.memos.of(&c.want.Service, nil, time.Now())
	c.look(t.Context(), t, lb.Outcome{Reason: busy})
	if len(b.forgot) > 0 || c.memos.find(&c.want.Service) == nil {
		t.Error("forgotten before it is gone")
	}
	c.look(t.Context(), t, lb.Outcome{Gone: true})
	if len(b.forgot) != 1 || b.forgot[0] != "web" || c.memos.find(&c.want.Service) != nil {
		t.Errorf("forgotten: %v", b.forgot)
	}
}

type forgetful struct {
	idle
	forgot []types.UID
}

func (f *forgetful) Forget(uid types.UID) { f.forgot = append(f.forgot, uid) }

// Another writer of the labels that a backend needs, until it gives up: what is told
// and written, and when the Service is looked at.
func TestConcludeWithAnotherWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConclusion(serviceOf("web", "", false))
		out := lb.Outcome{Reason: full, Owns: "labels", Marks: lb.Marks{Labels: map[string]string{"a": "b"}}}
		c.want.Verdict.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.7")}
		for n := range 1 + foreignTolerated { // the first is ours
			c.want.Service.Version = strconv.Itoa(n + 1)
			if again := c.look(t.Context(), t, out); again != 0 || len(written(c.api)) != 1 {
				t.Errorf("write %d: again after %v", n, again)
			}
		}
		if events := told(c.events); len(events) != 1 || !strings.HasPrefix(events[0], string(lb.PoolExhausted)) {
			t.Errorf("at first, told %q", events)
		}
		c.want.Service.Version = "100"
		if again := c.look(t.Context(), t, out); again != foreignFirst || len(written(c.api)) != 0 {
			t.Errorf("not left alone; again after %v", again)
		}
		if events := told(c.events); len(events) != 1 || !strings.HasPrefix(events[0], string(lb.ForeignWriter)) {
			t.Errorf("told %q", events)
		}
		<-time.After(foreignFirst)
		if again := c.look(t.Context(), t, out); again != foreignQuiet || len(written(c.api)) != 1 {
			t.Errorf("not written after the wait; again after %v", again)
		}
		c.want.Service.Version, c.want.Service.Labels = "101", map[string]string{"a": "b"}
		if again := c.look(t.Context(), t, out); again != foreignQuiet {
			t.Errorf("again after %v", again)
		}
		if events := told(c.events); len(events) > 0 {
			t.Errorf("they may be back at once; told %q", events)
		}
		<-time.After(foreignQuiet)
		if again := c.look(t.Context(), t, out); again != 0 {
			t.Errorf("again after %v", again)
		}
		if events := told(c.events); len(events) != 1 || !strings.HasPrefix(events[0], string(lb.PoolExhausted)) {
			t.Errorf("after they have given up, told %q", events)
		}
	})
}
