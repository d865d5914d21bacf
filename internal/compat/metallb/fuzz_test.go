package metallb

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
)

// FuzzObjects: whatever is stored in a pool and an advertisement, everything is
// told of, the order does not matter, a pool with a fault hands out nothing, an
// advertisement with one applies nowhere, and a good pool beside them works.
func FuzzObjects(f *testing.F) {
	f.Add("{addresses: [10.0.0.0/24], serviceAllocation: {namespaceSelectors: [{matchLabels: {a: b}}]}}", "{ipAddressPools: [fuzz]}")
	f.Add("{addresses: [x], serviceAllocation: {serviceSelectors: [{matchExpressions: [{key: a, operator: Near}]}]}}", "{ipAddressPoolSelectors: [{}], interfaces: [eth0]}")
	f.Add("{serviceAllocation: {priority: -1, namespaces: [a, a]}}", "{preferredNodeSelectors: [{weight: 1000, preference: {matchLabels: {'!': x}}}]}")
	f.Add("{addresses: [10.0.0.0/24], autoAssign: false}", "{nodeSelectors: [{matchExpressions: [{key: a, operator: In, values: [b, b]}]}], ipAddressPools: [other, other]}")
	f.Fuzz(func(t *testing.T, poolSpec, adSpec string) {
		good := *poolWith("192.0.2.0/24")
		var p metallb.IPAddressPool
		var ad, fallback metallb.L2Advertisement
		if yaml.Unmarshal([]byte(poolSpec), &p.Spec) != nil || yaml.Unmarshal([]byte(adSpec), &ad.Spec) != nil {
			return
		}
		p.Name, ad.Name, fallback.Name = "fuzz", "fuzz", "z-all"
		o := &Objects{Pools: []metallb.IPAddressPool{good, p}, Advertisements: []metallb.L2Advertisement{fallback, ad}}
		inAnyOrder(t, o)
		pools, problems := o.Translate()
		told := map[string]lb.Reason{}
		for _, x := range problems {
			told[x.Kind+" "+x.Object.Name] = x.Reason
		}
		if pools[0].Key.Name != "fuzz" || pools[1].Key.Name != "p" || pools[1].Invalid != nil || len(pools[1].Advertisements) == 0 {
			t.Fatalf("%v", pools)
		}
		reason, wrong := told["IPAddressPool fuzz"]
		if wrong != (pools[0].Invalid != nil) || wrong && (reason != *pools[0].Invalid || reason.Code != lb.PoolInvalid) {
			t.Errorf("told %v, is %v", reason, pools[0].Invalid)
		}
		if to := p.Spec.AllocateTo; to != nil && len(to.NamespaceSelectors)+len(to.Namespaces) > 0 && pools[0].NamespaceSelectors == nil && pools[0].Namespaces == nil {
			t.Error("a pool for some namespaces became one for all")
		}
		if to := p.Spec.AllocateTo; to != nil && len(to.ServiceSelectors) != len(pools[0].ServiceSelectors) {
			t.Error("selectors of Services got lost")
		}
		switch reason := told["L2Advertisement fuzz"]; reason.Code {
		case AdvertisementReady:
		case AdvertisementInvalid:
			for _, p := range pools {
				if len(p.Advertisements) != 1 {
					t.Errorf("an invalid advertisement applies to %s", p.Key)
				}
			}
			if strings.Contains(reason.Text, "%!") {
				t.Errorf("says %s", reason.Text)
			}
		default:
			t.Errorf("told %v", reason)
		}
	})
}
