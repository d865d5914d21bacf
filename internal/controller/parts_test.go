package controller

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/config"
)

// Events wait while addresses are assigned, and not for a cloud that is slow.
func TestBusyWithAddressesAlone(t *testing.T) {
	c := commonOf(several(), nil, nil)
	p := &parts{common: c, wakers: &wakers{all: map[config.Backend]*waker{}}}
	for _, name := range []config.Backend{config.Announce, cloud} {
		svc, wakes := &services{common: c, name: name}, &waker{queue: newQueue(t)}
		p.services, p.wakers.all[name] = append(p.services, svc), wakes
		if p.busy() {
			t.Errorf("%s is busy with nothing", name)
		}
		svc.running.Add(1)
		if want := name == config.Announce; p.busy() != want {
			t.Errorf("%s runs, busy: %v", name, p.busy())
		}
		svc.running.Add(-1)
		wakes.wake(types.NamespacedName{Name: "web"})
		if want := name == config.Announce; p.busy() != want {
			t.Errorf("a Service waits for %s, busy: %v", name, p.busy())
		}
		drained(wakes.queue)
	}
}
