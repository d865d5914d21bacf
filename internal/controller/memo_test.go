package controller

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

var (
	fine     = lb.Rebuilt(lb.Ready, "It has 192.0.2.7.", true)
	full     = lb.Rebuilt(lb.PoolExhausted, "Full.", false)
	busy     = lb.Reason{Code: lb.CloudBusy, Text: "Under way."}
	updated  = lb.Reason{Code: lb.UpdatedLoadBalancer, Text: "One port more."}
	ensuring = lb.Reason{Code: lb.EnsuringLoadBalancer, Text: "A load balancer."}
)

// look is one look at a Service: what came of it, and what of that is told.
type look struct {
	name string
	out  lb.Outcome
	want []lb.Reason
}

func checkNews(t *testing.T, m *memo, looks []look) {
	t.Helper()
	for _, l := range looks {
		if got := m.news(&l.out, l.out.Reason); !slices.EqualFunc(got, l.want, lb.Reason.Equal) {
			t.Errorf("%s: told %v, want %v", l.name, got, l.want)
		}
	}
}

// How a Service stands is told when it changes.
func TestNewsOfWhatChanges(t *testing.T) {
	checkNews(t, &memo{}, []look{
		{name: "nothing to say", out: lb.Outcome{}},
		{"at first", lb.Outcome{Reason: full}, []lb.Reason{full}},
		{name: "the same", out: lb.Outcome{Reason: full}},
		{name: "nothing to say again", out: lb.Outcome{}},
		{name: "the same again", out: lb.Outcome{Reason: full}},
		{"another", lb.Outcome{Reason: fine}, []lb.Reason{fine}},
		{"as at first", lb.Outcome{Reason: full}, []lb.Reason{full}},
	})
}

// That something is under way is worth one word, if nothing was said about why; after
// it, the Service stands as before.
func TestNewsOfWhatPasses(t *testing.T) {
	wait := lb.Outcome{Reason: busy, Passing: true}
	checkNews(t, &memo{}, []look{
		{"as ever", lb.Outcome{Reason: fine}, []lb.Reason{fine}},
		{"somebody else has begun something", wait, []lb.Reason{busy}},
		{name: "still", out: wait},
		{name: "it stands as before", out: lb.Outcome{Reason: fine}},
		{"begun once more", wait, []lb.Reason{busy}},
		{"it stands otherwise", lb.Outcome{Reason: full}, []lb.Reason{full}},
	})
	checkNews(t, &memo{}, []look{
		{"we have begun something", lb.Outcome{Reason: busy, Passing: true, Done: 1, Tell: []lb.Reason{ensuring}}, []lb.Reason{ensuring}},
		{name: "it takes its time", out: wait},
		{name: "and more", out: wait},
		{"done", lb.Outcome{Reason: fine}, []lb.Reason{fine}},
		{"then somebody else begins something", wait, []lb.Reason{busy}},
	})
}

// What else there is to tell is told once while it is so, and again when it is so
// again.
func TestNewsBesides(t *testing.T) {
	checkNews(t, &memo{}, []look{
		{"both", lb.Outcome{Reason: fine, Tell: []lb.Reason{updated}}, []lb.Reason{updated, fine}},
		{name: "still so", out: lb.Outcome{Reason: fine, Tell: []lb.Reason{updated}}},
		{"one more", lb.Outcome{Reason: fine, Tell: []lb.Reason{updated, ensuring}}, []lb.Reason{ensuring}},
		{name: "one less", out: lb.Outcome{Reason: fine, Tell: []lb.Reason{updated}}},
		{"that one again", lb.Outcome{Reason: fine, Tell: []lb.Reason{ensuring, updated}}, []lb.Reason{ensuring}},
		{name: "none", out: lb.Outcome{Reason: fine}},
		{"all again", lb.Outcome{Reason: fine, Tell: []lb.Reason{updated, ensuring}}, []lb.Reason{updated, ensuring}},
	})
}

// A Service was told what is written on it, wherever that is: a restart repeats no
// event.
func TestRestartRepeatsNoEvent(t *testing.T) {
	now := time.Now()
	read := lb.Reason{Code: full.Code, Text: full.Text} // of which nothing else is known
	for name, m := range map[string]*memo{
		"in our condition":   new(memos).of(&lb.Service{Says: &lb.Condition{Reason: read}}, nil, now),
		"elsewhere":          new(memos).of(&lb.Service{}, &read, now),
		"the condition wins": new(memos).of(&lb.Service{Says: &lb.Condition{Reason: read}}, &fine, now),
	} {
		t.Run(name, func(t *testing.T) {
			checkNews(t, m, []look{
				{name: "the same", out: lb.Outcome{Reason: full}},
				{"a change", lb.Outcome{Reason: fine}, []lb.Reason{fine}},
			})
		})
	}
	fresh := new(memos).of(&lb.Service{}, nil, now)
	checkNews(t, fresh, []look{{"nothing is written on it", lb.Outcome{Reason: full}, []lb.Reason{full}}})
}

// A Service that was made anew under its name is another one; what is forgotten
// starts over.
func TestMemos(t *testing.T) {
	var all memos
	old, anew := &lb.Service{UID: "1"}, &lb.Service{UID: "2"}
	if all.find(old) != nil {
		t.Error("there is a memo of a Service that nobody has seen")
	}
	first := all.of(old, nil, time.Now())
	if all.of(old, nil, time.Now()) != first || all.find(old) != first {
		t.Error("two memos of one Service")
	}
	if all.find(anew) != nil {
		t.Error("a new Service has the memo of an old one")
	}
	if all.of(anew, nil, time.Now()) == first {
		t.Error("a new Service gets the memo of an old one")
	}
	if uid, known := all.forget(anew.Key); uid != "2" || !known {
		t.Errorf("forgot %q, %v", uid, known)
	}
	if _, known := all.forget(anew.Key); known || all.find(anew) != nil {
		t.Error("not forgotten")
	}
}

// Services are counted by how they stand, also while they are being looked at.
func TestCountByReason(t *testing.T) {
	var all memos
	count := func() map[lb.Code]int {
		n := map[lb.Code]int{}
		all.count(n, map[string]int{}, map[lb.Code]time.Time{})
		return n
	}
	m := all.of(&lb.Service{UID: "1"}, &full, time.Now())
	var counting sync.WaitGroup
	counting.Go(func() {
		for range 100 {
			if n := count(); n[lb.PoolExhausted]+n[lb.Ready] != 1 {
				t.Errorf("%v", n)
			}
		}
	})
	for range 50 {
		m.news(&lb.Outcome{Reason: fine}, fine)
		m.news(&lb.Outcome{Reason: full}, full)
	}
	m.news(&lb.Outcome{Reason: fine}, fine)
	counting.Wait()
	m.news(&lb.Outcome{Reason: busy, Passing: true}, busy)
	if n := count(); len(n) != 1 || n[lb.CloudBusy] != 1 {
		t.Errorf("what passes is counted as %v", n)
	}
}

// How long a Service waits counts from when it began to, whatever it waits for since, and
// for the next controller from what its condition says.
func TestWaitsSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all memos
		since := func(code lb.Code) time.Duration {
			t.Helper()
			at := map[lb.Code]time.Time{}
			all.count(map[lb.Code]int{}, map[string]int{}, at)
			if len(at) != 1 || at[code].IsZero() {
				t.Fatalf("%v", at)
			}
			return time.Since(at[code])
		}
		m := all.of(&lb.Service{UID: "1", Key: types.NamespacedName{Name: "a"}}, nil, time.Now())
		<-time.After(time.Minute)
		m.news(&lb.Outcome{Reason: fine}, fine)
		all.count(map[lb.Code]int{}, map[string]int{}, nil) // nobody waits: nothing is added
		m.news(&lb.Outcome{Reason: busy, Passing: true}, busy)
		<-time.After(time.Minute)
		m.news(&lb.Outcome{Reason: full}, full)
		<-time.After(time.Minute)
		if got := since(lb.PoolExhausted); got != 2*time.Minute {
			t.Errorf("it waits for %s", got)
		}
		says := &lb.Condition{Reason: full, Since: time.Now().Add(-time.Hour)}
		n := all.of(&lb.Service{UID: "2", Key: types.NamespacedName{Name: "b"}, Says: says}, nil, time.Now())
		n.news(&lb.Outcome{Reason: full}, full)
		if got := since(lb.PoolExhausted); got != time.Hour {
			t.Errorf("the longest waits for %s", got)
		}
		n.news(&lb.Outcome{Reason: fine}, fine)
		if got := since(lb.PoolExhausted); got != 2*time.Minute {
			t.Errorf("the longest waits for %s", got)
		}
	})
}

// What is older than our own last write is not looked at.
func TestStale(t *testing.T) {
	for _, test := range []struct {
		written, version string
		want             bool
	}{{"", "7", false}, {"8", "7", true}, {"8", "8", false}, {"8", "9", false}, {"10", "9", true}, {"8", "x", false}} {
		if got := (&memo{written: test.written}).stale(&lb.Service{Version: test.version}); got != test.want {
			t.Errorf("version %s, %q written: stale is %v", test.version, test.written, got)
		}
	}
}

// A Service that was created while we watched waits since it was seen.
func TestAge(t *testing.T) {
	created := time.Unix(1000, 0)
	for _, test := range []struct{ seen, want time.Duration }{{1500 * time.Millisecond, time.Second}, {2 * time.Second, 3 * time.Second}, {time.Hour, time.Hour + time.Second}} {
		m := &memo{seen: created.Add(test.seen)}
		if got := m.age(&lb.Service{Created: created}, m.seen.Add(time.Second)); got != test.want {
			t.Errorf("seen after %v: %v, want %v", test.seen, got, test.want)
		}
	}
}
