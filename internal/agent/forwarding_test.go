package agent

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// fakeRules are those of kube-proxy.
type fakeRules struct {
	mu      sync.Mutex
	has     map[netip.Addr]bool
	unknown bool
	asked   int
}

func (f *fakeRules) read(addrs map[netip.Addr][]lb.Port) (map[netip.Addr]bool, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	out := map[netip.Addr]bool{}
	for addr := range addrs {
		out[addr] = f.has[addr]
	}
	return out, !f.unknown
}

func (f *fakeRules) set(addr netip.Addr, has bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.has == nil {
		f.has = map[netip.Addr]bool{}
	}
	f.has[addr] = has
}

func (f *fakeRules) questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// A Service is reached when kube-proxy has its rules; at the latest after a while, because
// something else may forward. What was reached stays so, and is asked about again after it was
// gone.
func TestForwarding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := &fakeRules{}
		changed := make(chan struct{}, 1)
		f := newForwarding(changed, rules.read)
		var running sync.WaitGroup
		defer running.Wait()
		web, mail := question{uid: "web"}, question{uid: "mail"}
		ready := func(all ...question) int { return len(f.ready(t.Context(), &running, vip, all)) }
		if ready(web) != 1 {
			t.Error("what is here at the start is not taken to be forwarded")
		}
		f.starting = false
		if ready(web) != 1 {
			t.Error("what was forwarded is not any more")
		}
		ready() // the Service has no pods for a while
		if ready(web) != 0 {
			t.Error("forwarded before anybody was asked")
		}
		after(time.Second)
		if ready(web) != 0 {
			t.Error("forwarded without rules")
		}
		rules.set(vip, true)
		<-changed
		if ready(web) != 1 {
			t.Error("not forwarded, although there are rules")
		}
		after(time.Second)
		asked := rules.questions()
		rules.set(vip, false) // kube-proxy is being restarted
		after(time.Second)
		if ready(web) != 1 || rules.questions() != asked {
			t.Error("what was forwarded is asked about again")
		}
		if ready(web, mail) != 1 {
			t.Error("a Service that came later is forwarded at once")
		}
		began := time.Now()
		<-changed
		if took := time.Since(began); ready(web, mail) != 2 || took < forwardingWait || took > forwardingWait+time.Second {
			t.Errorf("without rules the address was given up, or used after %v", took)
		}
		ready()
		if ready(question{uid: "web", other: true}) != 1 {
			t.Error("rules of kube-proxy are awaited for a Service of another program")
		}
		ready()
		rules.mu.Lock()
		rules.unknown = true
		rules.mu.Unlock()
		ready(web)
		<-changed
		if ready(web) != 1 {
			t.Error("a node without kube-proxy does not forward")
		}
	})
}

// With policy Local, the health check of the Service says when there are rules for the pods of
// this node.
func TestForwardingToPodsOfTheNode(t *testing.T) {
	var well atomic.Bool
	asked := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		select {
		case asked <- struct{}{}:
		default:
		}
	}))
	listener, err := net.Listen("tcp", "127.0.0.3:0") // at one address of the node only
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	defer server.Close()
	changed := make(chan struct{}, 1)
	f := newForwarding(changed, nil)
	f.starting = false
	f.setNode([]netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")})
	var running sync.WaitGroup
	defer running.Wait()
	q := question{uid: "web", health: netip.MustParseAddrPort(server.Listener.Addr().String()).Port()}
	ready := func() []types.UID { return f.ready(t.Context(), &running, vip, []question{q}) }
	if len(ready()) != 0 {
		t.Error("forwarded before anybody was asked")
	}
	<-asked
	if len(ready()) != 0 {
		t.Error("forwarded, although the health check says otherwise")
	}
	well.Store(true)
	<-changed
	if len(ready()) != 1 {
		t.Error("not forwarded, although the health check says so")
	}
}
