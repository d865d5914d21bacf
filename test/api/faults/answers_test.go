package faults

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"fairlead.io/internal/controller"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/rig"
)

// badLine is a network that loses things. Of the writes of a kind it lets a third
// pass undisturbed; another third never arrives; of the last third the server's
// answer is lost: the write was done, and the client does not know.
type badLine struct {
	kind         string // part of the path
	lost, silent atomic.Int32
}

// use puts the line between a controller and its API server.
func (b *badLine) use(o *controller.Options) {
	o.REST.Wrap(func(next http.RoundTripper) http.RoundTripper { return &badTransport{b, next} })
}

// badTransport is the line of one of the controller's clients.
type badTransport struct {
	*badLine
	next http.RoundTripper
}

var errLine = errors.New("connection reset by the test")

func (b *badTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, b.kind) {
		return b.next.RoundTrip(r)
	}
	switch rand.IntN(3) {
	case 0:
		b.lost.Add(1)
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, errLine
	case 1:
		resp, err := b.next.RoundTrip(r)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		b.silent.Add(1)
		return nil, errLine
	default:
		return b.next.RoundTrip(r)
	}
}

// TestLostAnswers serves Services over a bad line: every one gets its address
// and is told of it, once; no address is lost or given twice on the way.
func TestLostAnswers(t *testing.T) {
	theRig.Clean(t)
	createPool(t, "edge", "10.8.0.0/25")
	line := &badLine{kind: "/services/"}
	l := keepLedger(t)
	theRig.Start(t, line.use)
	services := create(t, "line", 100)
	settled(t, "edge")
	for _, s := range services {
		rig.Eventually(t, fmt.Sprintf("%s is told its address", s.Name), func() error { return told(s, lb.Ready) })
	}
	l.close(t)
	if len(l.doubles) > 0 || len(l.lost) > 0 {
		t.Errorf("addresses with two holders: %v; taken away: %v", l.doubles, l.lost)
	}
	if line.lost.Load() == 0 || line.silent.Load() == 0 {
		t.Errorf("the line was too good: %d writes and %d answers lost", line.lost.Load(), line.silent.Load())
	}
}

// TestOneWritePerService counts on the server: one write and one event for each
// Service, and none by a controller that starts anew on what is served.
func TestOneWritePerService(t *testing.T) {
	theRig.Clean(t)
	createPool(t, "edge", "10.9.0.0/25")
	services := create(t, "once", 50)
	stop := theRig.Start(t)
	for _, s := range services {
		rig.Eventually(t, fmt.Sprintf("%s is told its address", s.Name), func() error { return told(s, lb.Ready) })
	}
	stop()
	theRig.Start(t)
	// Services are looked at in any order; so that the new controller has seen all
	// others when this one is told, it comes last in its queue.
	last := create(t, "once-more", 1)[0]
	rig.Eventually(t, "the last one is told its address", func() error { return told(last, lb.Ready) })

	writes, events := map[string]int{}, map[string]int{}
	rig.Eventually(t, "the audit log has the last event", func() error {
		clear(writes)
		clear(events)
		counts, err := theRig.API.WriteCounts()
		if err != nil {
			return err
		}
		for w, n := range counts {
			switch {
			case w.Resource == "services" && w.Subresource == "status":
				writes[w.Name] += n
			case w.Resource == "events" && !strings.HasPrefix(w.UserAgent, "control-plane/"): // which also looks after Services
				name, _, _ := strings.Cut(w.Name, ".")
				events[name] += n
			}
		}
		if events[last.Name] == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	for _, s := range append(services, last) {
		if writes[s.Name] != 1 || events[s.Name] != 1 {
			t.Errorf("service %s was written %d times and has %d events", s.Name, writes[s.Name], events[s.Name])
		}
	}
}
