package kubevip

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// FuzzParse: whatever is in the ConfigMap, pools have addresses that can be given
// away, a namespace has one pool at most, everything that is wrong is told of its
// key, and a key that is wrong changes nothing that another says.
func FuzzParse(f *testing.F) {
	f.Add("cidr-global=10.0.0.0/24, 10.0.0.128/25\nrange-shop=10.0.0.1-10.0.0.9,2001:db8::1-2001:db8::9\nsearch-order=desc")
	f.Add("cidr-shop=0.0.0.0/32,fd00::/120\ncidr-global=::/128\nskip-end-ips-in-cidr=false\nquota-shop=2\nquota-global=x")
	f.Add("cidr-=1.1.1.0/24\ncidr-shop=\ninterface-shop=eth0/1\nallow-share-shop=true\nallow-shared-shop=false\npool-precedence=namespace-first")
	f.Add("range-global=9.9.9.9-1.1.1.1,fe80::1-ff02::1\nquota-web=3\nkubevip-services=x\nrange-web=224.0.0.0/4")
	f.Fuzz(func(t *testing.T, text string) {
		data := map[string]string{}
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			data[key] = value
		}
		c := Parse(&corev1.ConfigMap{Data: data})
		for i := range c.Pools {
			checkPool(t, &c.Pools[i], data)
		}
		for _, namespace := range []string{"shop", "web", "other"} {
			checkNamespace(t, c, namespace)
		}
		for _, p := range c.Problems {
			if _, ok := data[p.Key]; !ok || strings.Contains(p.Reason.Text, "%!") || !strings.Contains(p.Reason.Text, "Key "+p.Key+" ") && !strings.Contains(p.Reason.Text, "Key "+p.Key+":") {
				t.Errorf("told %q of key %q", p.Reason.Text, p.Key)
			}
			rest := make(map[string]string, len(data))
			for key, value := range data {
				if key != p.Key {
					rest[key] = value
				}
			}
			checkSame(t, c, Parse(&corev1.ConfigMap{Data: rest}), p)
		}
	})
}

func checkPool(t *testing.T, p *lb.Pool, data map[string]string) {
	t.Helper()
	if _, ok := data[p.Key.Name]; !ok {
		t.Errorf("pool %s is of no key", p.Key)
	}
	var set netipx.IPSetBuilder
	var has [len(lb.Families)]bool
	for _, s := range p.Spans {
		set.AddRange(s)
		if kind := lb.Unusable(s, lb.LinkLocal); kind != "" {
			t.Errorf("pool %s has %s addresses: %s", p.Key, kind, s)
		}
		has[lb.FamilyOf(s.From())] = true
	}
	if all, err := set.IPSet(); err != nil || !slices.Equal(all.Ranges(), p.Spans) {
		t.Errorf("pool %s has %v: not sorted, disjoint and apart (%v)", p.Key, p.Spans, err)
	}
	for _, x := range p.Withheld {
		if !p.Contains(x) || !x.Is4() {
			t.Errorf("pool %s withholds %s", p.Key, x)
		}
	}
	for _, f := range lb.Families {
		if p.DHCP[f] && has[f] {
			t.Errorf("pool %s has %s addresses of its own and from a server", p.Key, f)
		}
	}
	nothing := len(p.Spans) == 0 && p.DHCP == [len(lb.Families)]bool{}
	if nothing && p.Invalid == nil || p.Quota < lb.NothingNew {
		t.Errorf("pool %s: invalid %v, %d addresses", p.Key, p.Invalid, len(p.Spans))
	}
}

// checkNamespace: it has the one pool that it is said to have.
func checkNamespace(t *testing.T, c *Config, namespace string) {
	t.Helper()
	var keys []string
	for i := range c.Pools {
		if c.Pools[i].Admits(&lb.Request{Service: types.NamespacedName{Namespace: namespace}}) {
			keys = append(keys, c.Pools[i].Key.Name)
		}
	}
	if key := c.PoolKey(namespace); strings.Join(keys, " ") != key {
		t.Errorf("namespace %s has %q, is said to have %q", namespace, keys, key)
	}
	if fault := notAnInterface(c.Interface(namespace)); c.Interface(namespace) != "" && fault != "" {
		t.Errorf("interface %q %s", c.Interface(namespace), fault)
	}
}

// checkSame: without the key of p, which has no effect, the rest means the same.
// (A key of a pool that is invalid has one: it hides others. A limit that cannot be
// read is the strictest.)
func checkSame(t *testing.T, c, without *Config, p Problem) {
	t.Helper()
	for i := range c.Pools {
		pool := c.Pools[i]
		for _, other := range without.Pools {
			if other.Key != pool.Key {
				continue
			}
			pool.Except, other.Except = nil, nil
			if pool.Quota == lb.NothingNew {
				other.Quota = lb.NothingNew
			}
			if !reflect.DeepEqual(pool, other) {
				t.Errorf("without %s, which is wrong, pool %s differs:\n%v\n%v", p.Key, pool.Key, pool, other)
			}
		}
	}
	for _, namespace := range []string{"shop", "web"} {
		if c.Interface(namespace) != without.Interface(namespace) {
			t.Errorf("without %s, the interface of %s differs", p.Key, namespace)
		}
	}
}

// FuzzService: whatever is written on a Service, what is read is addresses that a
// Service can have, every request has an answer, and a given address is not a request.
func FuzzService(f *testing.F) {
	f.Add("10.0.0.5,fd00::5", "10.0.0.5", "", "", true, "10.0.0.5")
	f.Add("10.0.0.5", "10.0.0.5", "10.0.0.5", "", true, "")
	f.Add("10.0.0.5", "10.0.0.6", "10.0.0.5", "10.0.0.5", true, "10.0.0.5")
	f.Add(" 0.0.0.0, ::", "", "", "0.0.0.0", false, "192.0.2.1")
	f.Add("vip.example.com,127.0.0.1,,", "::ffff:1.2.3.4", "x", "y", false, "")
	f.Fuzz(func(t *testing.T, text, spec, given, asked string, label bool, published string) {
		object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationAddresses: text}, Labels: map[string]string{}}}
		object.Spec.LoadBalancerIP = spec
		object.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		object.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: published}}
		for key, value := range map[string]string{AnnotationGiven: given, AnnotationAsked: asked} {
			if value != "" {
				object.Annotations[key] = value
			}
		}
		if label {
			object.Labels[Label] = LabelValue
		}
		s := kubeapi.Service(object)
		requested, inSpec := Requested(s)
		if requested != "" && !inSpec && requested == Given(s) {
			t.Errorf("%q was given, and counts as a request", requested)
		}
		checkAddresses(t, Held(s), false)
		for _, before := range [][]netip.Addr{nil, {netip.MustParseAddr("192.0.2.1")}} {
			r := requestOf(s)
			r.Addresses = before
			Parse(nil).amend(&r, s)
			checkAddresses(t, r.Addresses, true)
			if requested != "" && r.Invalid == nil && len(r.Addresses) == 0 && r.DHCP == [len(lb.Families)]bool{} {
				t.Errorf("nothing is known of request %q", requested)
			}
			if r.Invalid != nil && (strings.Contains(r.Invalid.Text, "%!") || utf8.ValidString(text+spec) && !utf8.ValidString(r.Invalid.Text)) {
				t.Errorf("told %q", r.Invalid.Text)
			}
			narrow(&r, s)
			if len(r.Families) == 0 {
				t.Error("no family is left")
			}
		}
		if stripped := strip(s); stripped.LoadBalancerIP != "" || s.LoadBalancerIP != spec {
			t.Error("not stripped, or not a copy")
		}
	})
}

func checkAddresses(t *testing.T, all []netip.Addr, usable bool) {
	t.Helper()
	for i, a := range all {
		if slices.Contains(all[:i], a) || a.IsUnspecified() || a.Is4In6() || a.Zone() != "" || usable && unusable(a) != "" || i >= most {
			t.Errorf("%v", all)
		}
	}
}
