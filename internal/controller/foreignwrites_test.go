package controller

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"go4.org/netipx"

	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// contested is a Service that somebody else keeps overwriting, as backOffForeignWriter sees it.
type contested struct {
	*services
	memo    memo
	out     lb.Outcome
	service lb.Service
	now     time.Time
}

func newContested(out lb.Outcome, has string) *contested {
	c := commonOf(classesOf(config.Default(), nil), nil, nil)
	span, err := lb.ParseSpan("192.0.2.0/24")
	if err != nil {
		panic(err)
	}
	c.ledger.setPools([]lb.Pool{{Key: lb.PoolKey{Dialect: lb.Native, Name: "edge"}, Spans: []netipx.IPRange{span}}})
	s := lb.Service{Ingress: []lb.Ingress{{IP: has}}}
	return &contested{services: &services{common: c}, memo: memo{written: "0", content: "this"}, out: out, service: s, now: time.Unix(1e9, 0)}
}

// overwritten looks at the Service after the nth write of somebody else.
func (c *contested) overwritten(n int) (wait, quiet time.Duration, told lb.Reason, patch kubeapi.Patches) {
	c.service.Version, patch = strconv.Itoa(n), kubeapi.Patches{Status: []byte("{}")}
	out := c.out
	wait, quiet, told = c.backOffForeignWriter(&c.service, &c.memo, &out, "this", &patch, c.now)
	return wait, quiet, told, patch
}

// Some writes of others are tolerated. Then the Service is left alone for longer and
// longer, and that is told.
func TestForeignWritesAreMindedMoreAndMore(t *testing.T) {
	c := newContested(lb.Outcome{Reason: fine, Owns: "labels"}, "192.0.2.7")
	n := 0
	for range foreignTolerated {
		n++
		if wait, quiet, told, _ := c.overwritten(n); wait != 0 || quiet != 0 || told.Code != "" {
			t.Errorf("write %d: wait %v, look again after %v, told %v", n, wait, quiet, told)
		}
		// The cache may deliver the same version several times.
		if wait, _, _, _ := c.overwritten(n); wait != 0 {
			t.Errorf("write %d, seen twice: wait %v", n, wait)
		}
	}
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		n++
		wait, quiet, told, _ := c.overwritten(n)
		if wait != want || quiet != foreignQuiet || told != lb.ForeignWriter.With("labels") {
			t.Errorf("write %d: wait %v, want %v; look again after %v, told %v", n, wait, want, quiet, told)
		}
		c.now = c.now.Add(want - time.Second)
		if wait, _, _, _ := c.overwritten(n); wait != time.Second {
			t.Errorf("write %d, looked at a second before the end: wait %v", n, wait)
		}
		c.now = c.now.Add(time.Second)
		if wait, _, told, _ := c.overwritten(n); wait != 0 || told.Code != lb.ForeignWriter {
			t.Errorf("write %d, after the wait: wait %v, told %v", n, wait, told)
		}
	}
}

// Who publishes addresses of our pools does harm: another Service may have them.
func TestForeignWritesThatHarmAreUndoneSoon(t *testing.T) {
	for has, want := range map[string]time.Duration{"192.0.2.9": foreignHarmful, "198.51.100.9": 5 * time.Second} {
		c := newContested(lb.Outcome{Reason: fine, Owns: "status", Ingress: []lb.Ingress{{IP: "192.0.2.7"}}}, has)
		var wait time.Duration
		for n := range foreignTolerated + 1 {
			wait, _, _, _ = c.overwritten(n + 1)
		}
		if wait != want {
			t.Errorf("%s is published: wait %v, want %v", has, wait, want)
		}
	}
	// Where the status is not ours to write, it is not ours to undo.
	c := newContested(lb.Outcome{Reason: fine, Owns: "labels"}, "192.0.2.9")
	var wait time.Duration
	for n := range foreignTolerated + 1 {
		wait, _, _, _ = c.overwritten(n + 1)
	}
	if wait != 5*time.Second {
		t.Errorf("where the status is another's: wait %v", wait)
	}
}

// Our condition says what happens, where it is ours to write, until the other has
// been quiet for long.
func TestForeignWritesAreToldInTheCondition(t *testing.T) {
	c := newContested(lb.Outcome{Reason: fine, Owns: "status", Condition: lb.ConditionSays, Ingress: []lb.Ingress{{IP: "192.0.2.7", Mode: lb.IPModeVIP}}}, "198.51.100.9")
	var patch kubeapi.Patches
	for n := range foreignTolerated + 1 {
		_, _, _, patch = c.overwritten(n + 1)
	}
	if reason := conditionIn(t, patch.Status); reason != string(lb.ForeignWriter) {
		t.Errorf("the condition says %q", reason)
	}
	c.memo.told = lb.ForeignWriter.With("status")

	// It says what we wrote: they may be back at once.
	c.service = lb.Service{Version: "9", Ingress: c.out.Ingress, Says: &lb.Condition{Reason: c.memo.told}}
	out, none := c.out, kubeapi.Patches{}
	wait, quiet, told := c.backOffForeignWriter(&c.service, &c.memo, &out, "this", &none, c.now.Add(foreignQuiet-1))
	if wait != 0 || quiet != foreignQuiet || told != c.memo.told || out.Reason != told || !none.Empty() {
		t.Errorf("quiet for a while: wait %v, look again after %v, told %v, written %s", wait, quiet, told, none.Status)
	}
	out = c.out
	wait, quiet, told = c.backOffForeignWriter(&c.service, &c.memo, &out, "this", &none, c.now.Add(foreignQuiet))
	if wait != 0 || quiet != 0 || told.Code != "" || out.Reason != fine {
		t.Errorf("quiet for long: wait %v, look again after %v, told %v, stands as %v", wait, quiet, told, out.Reason)
	}
	if c.memo.foreign.count != 0 {
		t.Error("it is not forgotten")
	}
}

// What we change ourselves, and what is of no concern, is nobody's foreign write.
func TestWhatIsNoForeignWrite(t *testing.T) {
	for name, change := range map[string]func(*contested, *lb.Outcome, *kubeapi.Patches){
		"never written":       func(c *contested, _ *lb.Outcome, _ *kubeapi.Patches) { c.memo.written = "" },
		"something else said": func(c *contested, _ *lb.Outcome, _ *kubeapi.Patches) { c.memo.content = "that" },
		"of no concern":       func(_ *contested, out *lb.Outcome, _ *kubeapi.Patches) { out.Owns = "" },
		"nothing to write":    func(_ *contested, _ *lb.Outcome, p *kubeapi.Patches) { *p = kubeapi.Patches{} },
	} {
		c := newContested(lb.Outcome{Reason: fine, Owns: "labels"}, "192.0.2.7")
		for n := range 3 * foreignTolerated {
			c.service.Version = strconv.Itoa(n + 1)
			out, patch := c.out, kubeapi.Patches{Status: []byte("{}")}
			change(c, &out, &patch)
			if wait, quiet, told := c.backOffForeignWriter(&c.service, &c.memo, &out, "this", &patch, c.now); wait != 0 || quiet != 0 || told.Code != "" {
				t.Errorf("%s: wait %v, look again after %v, told %v", name, wait, quiet, told)
			}
		}
	}
}

func conditionIn(t *testing.T, patch []byte) string {
	t.Helper()
	var p struct {
		Status struct{ Conditions []struct{ Reason string } }
	}
	if err := json.Unmarshal(patch, &p); err != nil || len(p.Status.Conditions) != 1 {
		t.Fatalf("%v in %s", err, patch)
	}
	return p.Status.Conditions[0].Reason
}
