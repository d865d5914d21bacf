package ovn

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovn"
)

// tenant is a Service of a world with addresses from pools.
type tenant struct {
	*world
	want  lb.Want
	place Place
}

func (w *world) tenant(namespace, uid string) *tenant {
	t := &tenant{world: w, want: w.want, place: Place{Router: namespace, Gateway: namespace + "-ext-public"}}
	t.want.Service.Key.Namespace, t.want.Service.UID = namespace, types.UID(uid)
	return t
}

// settled gives the Service an address, as pools do.
func (t *tenant) settled(address string) {
	t.want.Verdict = lb.Verdict{Addresses: []netip.Addr{netip.MustParseAddr(address)}, Reason: lb.Rebuilt("Ready", "has "+address, true)}
}

// look is sync, of this Service.
func (t *tenant) look() lb.Outcome {
	t.t.Helper()
	t.world.want, t.world.place = t.want, t.place
	out := t.sync()
	t.want = t.world.want
	return out
}

func (t *tenant) servedAt(address string) {
	t.t.Helper()
	t.eventually(t.want.Service.Key.String()+" is served at "+address, func() bool {
		out := t.look()
		return out.Reason.Ready() && !out.Passing && t.has(address) && slices.Equal(t.want.Service.Published(), t.want.Verdict.Addresses)
	})
}

// has says whether the rows of the Service have an address.
func (t *tenant) has(address string) bool {
	t.t.Helper()
	return strings.Contains(t.rows(), t.want.Service.Key.Namespace+"-web-tcp,"+address+":80=")
}

// wakened says whether the Service was woken since a number of wakes.
func (t *tenant) wakened(since int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.woken[since:], t.want.Service.Key)
}

// A Service that pools give another address leaves its old one to others at once, while its
// rows still stand. Whoever gets the address has it only when they are gone: two routers
// would answer for it.
func TestAddressOfPoolsMoves(t *testing.T) {
	w := newWorld(t)
	w.server.Northd()
	w.server.Ctl("lr-add", "shalb-prod", "--", "lrp-add", "shalb-prod", "inside-prod", "02:00:00:00:01:01", "10.0.0.1/16", "--",
		"lrp-add", "shalb-prod", "shalb-prod-ext-public", "02:00:00:00:01:02", "168.119.17.54/28", "--", "lrp-set-gateway-chassis", "shalb-prod-ext-public", "ch1")
	dev, prod := w.tenant("shalb-dev", "u1"), w.tenant("shalb-prod", "u2")
	dev.settled("168.119.17.60")
	dev.servedAt("168.119.17.60")

	prod.settled("168.119.17.60")
	prod.want.Service.Ports = []lb.FrontendPort{{Port: lb.Port{Protocol: "TCP", Number: 443}, Name: "http"}} // another port is no less in the way
	out := prod.look()
	if !out.Passing || out.Again <= 0 || out.Done > 0 || strings.Contains(w.rows(), "shalb-prod") || len(prod.want.Service.Ingress) > 0 {
		t.Fatalf("%+v, rows %s", out, w.rows())
	}
	prod.want.Service.Ports = service().Ports
	prod.look()
	before := w.wakes()
	dev.settled("168.119.17.61")
	dev.servedAt("168.119.17.61")
	w.eventually("the other Service hears of it", func() bool { return prod.wakened(before) })
	prod.servedAt("168.119.17.60")

	// Both change their addresses with each other.
	dev.settled("168.119.17.60")
	prod.settled("168.119.17.61")
	if out := dev.look(); out.Reason.Code != VIPConflict || dev.has("168.119.17.60") || dev.has("168.119.17.61") || len(dev.want.Service.Ingress) > 0 {
		t.Errorf("%v, rows %s, published %v", out.Reason, w.rows(), dev.want.Service.Ingress)
	}
	before = w.wakes()
	prod.servedAt("168.119.17.61")
	w.eventually("the first Service hears of it", func() bool { return dev.wakened(before) })
	dev.servedAt("168.119.17.60")

	// What both have, for whatever reason, neither loses.
	prod.want.Service.Ports = []lb.FrontendPort{{Port: lb.Port{Protocol: "TCP", Number: 8443}, Name: "http"}}
	w.server.Ctl("set", "Load_Balancer", "shalb-prod-web-tcp", `vips:"168.119.17.60:8443"="10.0.0.11:8080"`)
	prod.settled("168.119.17.60")
	w.eventually("both are told", func() bool { return told(prod.look(), VIPContested) && told(dev.look(), VIPContested) })
	if !dev.has("168.119.17.60") {
		t.Errorf("rows %s", w.rows())
	}
}

// One that does not leave in time is told of.
func TestMoveGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		ours, theirs := ovn.View{Conflicts: []ovn.Rival{{Ours: true}}}, ovn.View{Conflicts: []ovn.Rival{{Ours: true}, {}}}
		if left := b.leaving("u1", &ours); left != moveGrace {
			t.Errorf("at first %s", left)
		}
		<-time.After(moveGrace)
		if left := b.leaving("u1", &ours); left > 0 {
			t.Errorf("after the grace %s", left)
		}
		b.left("u1")
		if left := b.leaving("u1", &ours); left != moveGrace {
			t.Errorf("the next time %s", left)
		}
		if left := b.leaving("u1", &theirs); left > 0 {
			t.Errorf("for somebody else %s", left)
		}
		if left := b.leaving("u1", &ovn.View{RouterMissing: true}); left > 0 {
			t.Errorf("for a router %s", left)
		}
	})
}
