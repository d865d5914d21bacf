package placement

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/routes"
	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/northbound"
)

// newNetwork is a world with the router of the project in the database.
func newNetwork(t *testing.T) (*world, *northbound.Server) {
	t.Helper()
	s := northbound.Start(t)
	s.Ctl("init")
	s.Ctl("lr-add", namespace, "--", "lrp-add", namespace, "inside", "02:00:00:00:00:01", "10.0.0.1/16")
	w := newWorld(t, s)
	w.own("public", "ext-public", "168.119.17.52")
	w.own("cloud", "ext-cloud", "100.64.0.3")
	return w, s
}

// matches are the routes that were written last.
func (w *world) matches() (out []string) {
	for _, r := range w.routes {
		out = append(out, r.Match+" via "+r.NextHopIP)
	}
	return out
}

// Replies of backends that serve an address of a network that is not the default one need
// routes, before the rows. Those that the rows need as they are stay until they change.
func TestRoutesAreWritten(t *testing.T) {
	w, s := newNetwork(t)
	if w.places(service("cloud", "10.0.0.11:8080")); w.routed > 0 {
		t.Errorf("the default network needs none: %v", w.matches())
	}
	dry := service("public", "10.0.0.11:8080")
	dry.DryRun = true
	if got := w.places(dry); w.routed > 0 || len(got.Plan.Steps) != 1 || got.Plan.Steps[0].Kind != "Vpc" {
		t.Errorf("dry run: %v", got.Plan)
	}
	// A backend that the router does not reach gets no traffic, so it needs no route.
	got := w.places(service("public", "10.0.0.11:8080", "192.168.1.1:8080"))
	if want := []string{"ip4.src == 10.0.0.11 && tcp.src == 8080 via 168.119.17.49"}; !slices.Equal(w.matches(), want) || len(got.Tell) > 0 {
		t.Errorf("%v, tells %v", w.matches(), got.Tell)
	}

	s.Ctl("lb-add", "shalb-dev-web-tcp", "168.119.17.52:80", "10.0.0.12:8080", "--", "set", "Load_Balancer", "shalb-dev-web-tcp",
		"external_ids:vendor=fairlead", `external_ids:"fairlead.io/cluster"=c1`, `external_ids:"fairlead.io/service"="shalb-dev/web"`)
	key := types.NamespacedName{Namespace: namespace, Name: "web"}
	netns.Eventually(t, time.Minute, "the row is seen", func() bool { has, err := w.served(key); return err == nil && len(has) == 1 })
	w.places(service("public", "10.0.0.11:8080"))
	if want := []string{"ip4.src == 10.0.0.11 && tcp.src == 8080 via 168.119.17.49", "ip4.src == 10.0.0.12 && tcp.src == 8080 via 168.119.17.49"}; !slices.Equal(w.matches(), want) {
		t.Errorf("before the row changes: %v", w.matches())
	}
	if w.Written(types.NamespacedName{Namespace: namespace, Name: "other"}); len(w.woken) > 0 {
		t.Errorf("woken %v", w.woken)
	}
	if w.Written(key, key); fmt.Sprint(w.woken) != "[web]" {
		t.Errorf("the row has changed, and %v were woken", w.woken)
	}
	w.fails = fmt.Errorf("no API server")
	if _, err := w.Place(t.Context(), service("public", "10.0.0.11:8080")); err == nil {
		t.Error("rows without routes would lose replies")
	}
}

// A Service gets a number of routes, and is told if it needs more.
func TestRoutesBeyondTheLimit(t *testing.T) {
	w, _ := newNetwork(t)
	backends := func(n int) (out []string) {
		for i := range n {
			out = append(out, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(1 + i/200), byte(1 + i%200)}), 8080).String())
		}
		return out
	}
	if got := w.places(service("public", backends(500)...)); len(got.Tell) > 0 || len(w.routes) != 500 {
		t.Errorf("%d routes, tells %v", len(w.routes), got.Tell)
	}
	got := w.places(service("public", backends(720)...))
	if len(w.routes) != 500 || len(got.Tell) != 1 || got.Tell[0].Code != routes.RoutesLimited || !strings.HasPrefix(got.Tell[0].Text, "The Service needs 720 policy routes in Vpc shalb-dev and gets 500 of them.") {
		t.Errorf("%d routes, tells %v", len(w.routes), got.Tell)
	}
	if !got.Tell[0].Ready() || !got.Tell[0].EventOnly() || !got.Tell[0].Warning() {
		t.Error("the others are served, and it is told by an event")
	}
	if got := w.places(service("cloud", backends(720)...)); len(got.Tell) > 0 {
		t.Errorf("on the default network: %v", got.Tell)
	}
}

// Without what routes are made of there are none, and the Service is served all the same.
func TestNoRoutes(t *testing.T) {
	for name, change := range map[string]func(*world){
		"no default network": func(w *world) {
			w.book.EIp(types.NamespacedName{Namespace: namespace, Name: kubedc.DefaultGateway}, nil)
			w.book.OvnEip("shalb-dev-ext-cloud", nil)
		},
		"no gateway":                        func(w *world) { w.subnet("ext-public", kubedc.Public, "168.119.17.48/28", "") },
		"what is no gateway":                func(w *world) { w.subnet("ext-public", kubedc.Public, "168.119.17.48/28", "moon") },
		"the gateway of the other family":   func(w *world) { w.subnet("ext-public", kubedc.Public, "168.119.17.48/28", "2001:db8::1") },
		"what is no network":                func(w *world) { w.subnet("ext-public", kubedc.Public, "moon", "168.119.17.49") },
		"a router that the namespace names": func(w *world) { w.book.Namespace(namespace, map[string]string{kubedc.AnnotationRouter: namespace}) },
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newNetwork(t)
			change(w)
			if got := w.places(service("public", "10.0.0.11:8080")); w.routed > 0 || got.Router != namespace || got.Elsewhere != nil {
				t.Errorf("%+v, routes %v", got, w.matches())
			}
		})
	}
	w := newWorld(t, nil)
	w.own("public", "ext-public", "168.119.17.52")
	if got := w.places(service("public", "10.0.0.11:8080")); w.routed > 0 || len(got.Addresses) != 1 {
		t.Errorf("without the database: %+v, routes %v", got, w.matches())
	}
}

// Rows of Services of the cluster count when addresses are given, and no others.
func TestRowsOf(t *testing.T) {
	w, s := newNetwork(t)
	s.Ctl("lb-add", "theirs", "168.119.17.52:81", "10.0.0.12:8080")
	s.Ctl("lb-add", "ours", "168.119.17.52:80", "10.0.0.12:8080", "--", "set", "Load_Balancer", "ours",
		"external_ids:vendor=fairlead", `external_ids:"fairlead.io/cluster"=c1`, `external_ids:"fairlead.io/service"="shop/api"`)
	address := netip.MustParseAddr("168.119.17.52")
	rows := rowsOf(w.db)
	netns.Eventually(t, time.Minute, "the row is seen", func() bool { all, err := rows(address, nil); return err == nil && len(all) == 1 })
	for _, c := range []struct {
		ports []lb.Port
		want  string
	}{
		{nil, "[{shop/api 168.119.17.52 [{TCP 80}]}]"},
		{[]lb.Port{{Protocol: "TCP", Number: 80}, {Protocol: "TCP", Number: 81}}, "[{shop/api 168.119.17.52 [{TCP 80}]}]"},
		{[]lb.Port{{Protocol: "UDP", Number: 80}}, "[]"},
	} {
		if got, err := rows(address, c.ports); err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%v: %v, %v; want %s", c.ports, got, err, c.want)
		}
	}
	if _, err := rowsOf(newWorld(t, nil).db)(address, nil); err == nil {
		t.Error("nobody knows what a database has that is away")
	}
}
