package ipam

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// several is the request of a Service for addresses.
func several(name string, age int, addresses ...string) lb.Request {
	r := lb.Request{
		Service: types.NamespacedName{Namespace: "shop", Name: name}, UID: types.UID(name), Created: time.Unix(int64(age), 0),
		Dialects: []lb.Dialect{lb.Native}, Families: []lb.Family{lb.IPv4}, Several: true, Ports: []lb.Port{{Protocol: "TCP", Number: 80}},
	}
	for _, a := range addresses {
		r.Addresses = append(r.Addresses, netip.MustParseAddr(a))
	}
	return r
}

func addrs(list string) (out []netip.Addr) {
	for _, a := range strings.Fields(list) {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func edgeOf(t *testing.T, span string) *Allocator {
	t.Helper()
	r, err := lb.ParseSpan(span)
	if err != nil {
		t.Fatal(err)
	}
	a := New()
	a.SetPools([]lb.Pool{{Key: lb.PoolKey{Dialect: lb.Native, Name: "edge"}, Spans: []netipx.IPRange{r}, Quota: 4, QuotaName: "the quota"}})
	return a
}

// want compares what a Service has.
func wantVerdict(t *testing.T, a *Allocator, name, addresses string, code lb.Code) lb.Verdict {
	t.Helper()
	v, ok := a.Verdict(types.NamespacedName{Namespace: "shop", Name: name})
	if got := strings.ReplaceAll(prose.Commas(v.Addresses), ",", ""); !ok || got != addresses || v.Reason.Code != code {
		t.Errorf("%s has %q and says %s, want %q and %s", name, got, v.Reason, addresses, code)
	}
	return v
}

// A Service that asks for several addresses of a family has those that it can have,
// waits for the others, and gives back what it does not ask for any more.
func TestSeveralOfAFamily(t *testing.T) {
	a := edgeOf(t, "192.0.2.0/28")
	a.Settle(several("other", 1, "192.0.2.3"), nil)
	_, changed := a.Settle(several("web", 2, "192.0.2.1", "192.0.2.2", "192.0.2.3"), nil)
	if v := wantVerdict(t, a, "web", "192.0.2.1 192.0.2.2", lb.AddressInUse); len(changed) != 0 || !strings.Contains(v.Reason.Text, "shop/other") || !strings.Contains(v.Reason.Text, "192.0.2.1 and 192.0.2.2") {
		t.Errorf("%v, %s", changed, v.Reason.Text)
	}
	if changed = a.Forget(types.NamespacedName{Namespace: "shop", Name: "other"}); len(changed) != 1 || changed[0].Name != "web" {
		t.Errorf("changed: %v", changed)
	}
	v := wantVerdict(t, a, "web", "192.0.2.1 192.0.2.2 192.0.2.3", lb.Ready)
	if v.Reason.Text != `The Service has 192.0.2.1, 192.0.2.2 and 192.0.2.3 from pool "edge".` || len(v.Pools) != 1 {
		t.Errorf("%v %s", v.Pools, v.Reason.Text)
	}
	// Nobody else gets them, and the quota counts each.
	a.Settle(several("late", 3, "192.0.2.2"), nil)
	wantVerdict(t, a, "late", "", lb.AddressInUse)
	a.Settle(several("more", 4, "192.0.2.9", "192.0.2.10"), nil)
	wantVerdict(t, a, "more", "192.0.2.9", lb.QuotaExceeded)
	a.Forget(types.NamespacedName{Namespace: "shop", Name: "more"})

	// In another order nothing moves; one less is given back to whoever waits for it.
	a.Settle(several("web", 2, "192.0.2.3", "192.0.2.1", "192.0.2.2"), addrs("192.0.2.1 192.0.2.2 192.0.2.3"))
	wantVerdict(t, a, "web", "192.0.2.1 192.0.2.2 192.0.2.3", lb.Ready)
	_, changed = a.Settle(several("web", 2, "192.0.2.3", "192.0.2.1"), addrs("192.0.2.1 192.0.2.2 192.0.2.3"))
	wantVerdict(t, a, "web", "192.0.2.1 192.0.2.3", lb.Ready)
	wantVerdict(t, a, "late", "192.0.2.2", lb.Ready)
	if len(changed) != 1 || changed[0].Name != "late" {
		t.Errorf("changed: %v", changed)
	}
	// What cannot be understood keeps what it has.
	wrong := several("web", 2)
	reason := lb.InvalidRequest.With("It is wrong")
	wrong.Invalid = &reason
	a.Settle(wrong, addrs("192.0.2.1 192.0.2.3"))
	wantVerdict(t, a, "web", "192.0.2.1 192.0.2.3", lb.InvalidRequest)
	// One or none.
	a.Settle(several("web", 2), addrs("192.0.2.1 192.0.2.3"))
	wantVerdict(t, a, "web", "192.0.2.1", lb.Ready)
	// Another Service of the name has nothing of it.
	again := several("web", 5, "192.0.2.4", "192.0.2.5")
	again.UID = "web again"
	a.Settle(again, nil)
	wantVerdict(t, a, "web", "192.0.2.4 192.0.2.5", lb.Ready)
	a.Forget(types.NamespacedName{Namespace: "shop", Name: "web"})
	for _, u := range a.Usage() {
		if u.Families[lb.IPv4].Used != 1 {
			t.Errorf("%d are used", u.Families[lb.IPv4].Used)
		}
	}
	if n := len(a.extras) + len(a.extrasOf); n != 0 {
		t.Errorf("%d extras left", n)
	}
}

// What a Service published before a restart it has afterwards, also if it comes last
// or cannot be understood.
func TestSeveralAreImported(t *testing.T) {
	for _, invalid := range []bool{false, true} {
		a := edgeOf(t, "192.0.2.0/28")
		r := several("web", 1, "192.0.2.1", "192.0.2.2")
		if invalid {
			reason := lb.InvalidRequest.With("It is wrong")
			r.Invalid, r.Addresses = &reason, nil
		}
		a.Import(several("late", 2, "192.0.2.2"), nil)
		a.Import(r, addrs("192.0.2.1 192.0.2.2"))
		a.SettleAll()
		code := lb.Ready
		if invalid {
			code = lb.InvalidRequest
		}
		wantVerdict(t, a, "web", "192.0.2.1 192.0.2.2", code)
		wantVerdict(t, a, "late", "", lb.AddressInUse)
		if n := a.CountByReason()[code]; n != 1 {
			t.Errorf("%d Services say %s", n, code)
		}
	}
}

// Without a word that says so, two of one family are a mistake.
func TestOneOfAFamily(t *testing.T) {
	a := edgeOf(t, "192.0.2.0/28")
	r := several("web", 1, "192.0.2.1", "192.0.2.2")
	r.Several = false
	a.Settle(r, nil)
	wantVerdict(t, a, "web", "", lb.FamilyMismatch)
}
