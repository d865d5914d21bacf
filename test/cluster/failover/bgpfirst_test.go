package failover

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"
)

// No connection is refused right after a Service was made: a node announces an address when its
// kube-proxy forwards it, however long that takes on one of them.
func TestBGPFirstConnections(t *testing.T) {
	r, _, _ := bgpWorld(t)
	resume := stopProxy(t, "node1")
	s := newService(t, "fresh", dualStackOfMetalLB)
	var trying sync.WaitGroup
	done := make(chan struct{})
	made, refused := make([]int, 2), make([][]string, 2)
	addrs := addressesOf(t, s)
	for i, a := range addrs {
		trying.Go(func() {
			began := time.Now()
			for {
				switch err := r.dial(a, 80); {
				case err == nil:
					made[i]++
				case errors.Is(err, syscall.ECONNREFUSED), made[i] > 0: // the router has no route at first
					refused[i] = append(refused[i], fmt.Sprintf("%v: %v", time.Since(began), err))
				}
				select {
				case <-done:
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
	for _, a := range addrs {
		r.leadsTo(hostPrefix(a), "node2", "node3")
	}
	resume()
	for _, a := range addrs {
		r.leadsTo(hostPrefix(a), nodes...)
		r.forwarded(a)
	}
	close(done)
	trying.Wait()
	for i, a := range addrs {
		t.Logf("%s: %d connections", a, made[i])
		if made[i] == 0 || len(refused[i]) > 0 {
			t.Errorf("%s: %d connections were made, and these failed: %q", a, made[i], refused[i])
		}
	}
}
