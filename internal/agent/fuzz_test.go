package agent

import (
	"encoding/json"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FuzzSlices: whatever EndpointSlices say, and in whatever order they come and change,
// a directory keeps nothing of them when they are gone.
func FuzzSlices(f *testing.F) {
	f.Add([]byte(`[{"metadata":{"namespace":"shop","name":"a","labels":{"kubernetes.io/service-name":"web"}},"endpoints":[{"addresses":["10.0.0.1"],"nodeName":"n1"},{"addresses":["10.0.0.2"],"nodeName":"n2","conditions":{"ready":false}}]},
		{"metadata":{"namespace":"shop","name":"a","labels":{"kubernetes.io/service-name":"other"}},"endpoints":[{"addresses":["10.0.0.1"]}]}]`))
	f.Add([]byte(`[{"metadata":{"name":"a"}},{"endpoints":[{"nodeName":""}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var all []discoveryv1.EndpointSlice
		if json.Unmarshal(data, &all) != nil {
			return
		}
		d := newDirectory(noLeases{})
		put(d, serviceOf("web", 1, "", 80, "192.0.2.7"))
		for i := range all {
			d.setSlice(client.ObjectKeyFromObject(&all[i]), &all[i])
		}
		for i := range all {
			d.setSlice(client.ObjectKeyFromObject(&all[i]), nil)
		}
		if len(d.serving) > 0 || len(d.owner) > 0 {
			t.Errorf("left: %v, %v", d.serving, d.owner)
		}
	})
}
