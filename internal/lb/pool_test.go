package lb

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestAdmits(t *testing.T) {
	gold := labels.Set{"tier": "gold"}.AsSelector()
	prod := labels.Set{"env": "prod"}.AsSelector()
	shop := &Request{Service: types.NamespacedName{Namespace: "shop", Name: "web"}, Labels: labels.Set{"tier": "gold"}, NamespaceLabels: labels.Set{"env": "test"}}
	other := &Request{Service: types.NamespacedName{Namespace: "other", Name: "web"}, NamespaceLabels: labels.Set{"env": "prod"}}
	for _, tt := range []struct {
		name        string
		pool        Pool
		shop, other bool
	}{
		{"for all", Pool{}, true, true},
		{"a namespace", Pool{Namespaces: sets.New("shop")}, true, false},
		{"no namespace", Pool{Namespaces: sets.New[string]()}, false, false},
		{"labels of namespaces", Pool{NamespaceSelectors: []labels.Selector{prod}}, false, true},
		{"a namespace or labels", Pool{Namespaces: sets.New("shop"), NamespaceSelectors: []labels.Selector{prod}}, true, true},
		{"labels of Services", Pool{ServiceSelectors: []labels.Selector{gold}}, true, false},
		{"any of the selectors", Pool{ServiceSelectors: []labels.Selector{prod, gold}}, true, false},
		{"namespace and labels", Pool{Namespaces: sets.New("other"), ServiceSelectors: []labels.Selector{gold}}, false, false},
	} {
		if got := tt.pool.Admits(shop); got != tt.shop {
			t.Errorf("%s: shop %v", tt.name, got)
		}
		if got := tt.pool.Admits(other); got != tt.other {
			t.Errorf("%s: other %v", tt.name, got)
		}
	}
}

func TestPoolKey(t *testing.T) {
	for want, k := range map[string]PoolKey{"edge": {Native, "edge"}, "metallb/edge": {"metallb", "edge"}} {
		if k.String() != want {
			t.Errorf("%v is written %s", k, k.String())
		}
	}
}

// Older is a strict order whatever the clocks say: in no other zone, and never
// both ways.
func TestOlder(t *testing.T) {
	now := time.Unix(1000, 0)
	a := &Request{UID: "a", Created: now}
	b := &Request{UID: "b", Created: now.In(time.FixedZone("x", 3600))}
	c := &Request{UID: "0", Created: now.Add(time.Second)}
	for _, pair := range [][2]*Request{{a, b}, {b, c}, {a, c}} {
		if !pair[0].Older(pair[1]) || pair[1].Older(pair[0]) {
			t.Errorf("%s and %s", pair[0].UID, pair[1].UID)
		}
	}
	if a.Older(a) {
		t.Error("older than itself")
	}
}

func TestFamilies(t *testing.T) {
	for i, f := range Families {
		if int(f) != i || f.String() != []string{"IPv4", "IPv6"}[i] {
			t.Errorf("%d is %s", i, f)
		}
	}
}
