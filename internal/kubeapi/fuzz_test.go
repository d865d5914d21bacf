package kubeapi

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"fairlead.io/internal/lb"
)

// FuzzPatch: whatever a Service says, a patch makes it say what an outcome says, and then
// there is nothing left to write. It fails if somebody else has written since.
func FuzzPatch(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"web","resourceVersion":"7"}}`), "192.0.2.7", "no address is free", "edge", "", uint8(1), true)
	f.Add([]byte(`{"metadata":{"annotations":{"fairlead.io/x":"old"},"finalizers":["a","fairlead.io/f"]},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ports":[{"port":80}]},{"hostname":"a.example"}]}}}`), "2001:db8::7", "", "", "192.0.2.9", uint8(2), false)
	f.Add([]byte(`{"spec":{"type":"LoadBalancer","loadBalancerIP":"x","ports":[{"port":-1,"targetPort":"http"}]},"status":{"conditions":[{"type":"fairlead.io/Ready","status":"True","reason":"Ready"},{"type":"other","status":"Unknown"}]}}`), "", "\u0000", "a\nb", "0.0.0.0", uint8(0), true)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, data []byte, address, text, note, spec string, condition uint8, clear bool) {
		s := &corev1.Service{}
		if json.Unmarshal(data, s) != nil || !utf8.Valid(data) || !utf8.ValidString(address+text+note+spec) {
			return
		}
		o := lb.Outcome{Reason: lb.InvalidRequest.With(text), Condition: []lb.ConditionChange{lb.ConditionStays, lb.ConditionSays, lb.ConditionGoes}[condition%3]}
		if clear {
			o.Ingress = []lb.Ingress{}
		}
		if address != "" {
			o.Ingress = []lb.Ingress{{IP: address, Mode: lb.IPModeVIP}}
		}
		o.Marks.Annotations = map[string]string{"fairlead.io/x": note}
		o.Marks.Labels = map[string]string{"fairlead.io/y": note}
		o.Marks.Finalizers, o.Marks.Removed = []string{"fairlead.io/g"}, []string{"fairlead.io/f"}
		o.Marks.LoadBalancerIP = &spec
		for writes := 0; ; writes++ {
			p := Patch(Service(s), &o, now)
			if p.Empty() {
				return
			}
			if writes == 2 {
				t.Fatalf("a third write: %s, %s", p.Object, p.Status)
			}
			patch := p.Object
			if patch == nil {
				patch = p.Status
			}
			var carries struct {
				Metadata struct{ ResourceVersion *string }
			}
			if err := json.Unmarshal(patch, &carries); err != nil || carries.Metadata.ResourceVersion == nil || *carries.Metadata.ResourceVersion != s.ResourceVersion {
				t.Fatalf("%s: %v", patch, err)
			}
			was, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			is, err := strategicpatch.StrategicMergePatch(was, patch, corev1.Service{})
			if err != nil {
				return // two of a kind, which no API server keeps
			}
			s = &corev1.Service{}
			if err := json.Unmarshal(is, s); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzEndpoints: tenants write EndpointSlices, too. Only what is an address counts.
func FuzzEndpoints(f *testing.F) {
	f.Add([]byte(`[{"addressType":"IPv4","ports":[{"port":80,"name":"http"},{}],"endpoints":[{"addresses":["10.0.0.1","x","::ffff:10.0.0.2","fe80::1%eth0"],"nodeName":"a","conditions":{"ready":false,"serving":true}},{}]}]`))
	f.Add([]byte(`[{"metadata":{"labels":{"kubernetes.io/service-name":"web"}}},{"endpoints":[{"addresses":["2001:db8::1"]}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var slices []discoveryv1.EndpointSlice
		if json.Unmarshal(data, &slices) != nil {
			return
		}
		most := 0
		for i := range slices {
			ServiceOf(&slices[i])
			for _, e := range slices[i].Endpoints {
				most += len(e.Addresses)
			}
		}
		got := Endpoints(slices)
		if len(got) > most {
			t.Errorf("%d endpoints of %d addresses", len(got), most)
		}
		for _, e := range got {
			if !e.Address.IsValid() || e.Address.Is4In6() || e.Address.Zone() != "" {
				t.Errorf("%+v", e)
			}
		}
	})
}
