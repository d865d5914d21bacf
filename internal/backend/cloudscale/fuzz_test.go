package cloudscale

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
)

// FuzzPlan: whatever the cloud says there is, there is a plan, and always the same one.
func FuzzPlan(f *testing.F) {
	for _, a := range []Actual{upstream(1, 2), upstream(), {}} {
		data, err := json.Marshal(a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"LoadBalancers":[{"uuid":"lb","tags":null,"vip_addresses":[{"address":""}]}],"Pools":[{"uuid":"","name":"tcp/http"},{"uuid":"","name":"tcp/http"}],"Listeners":[{"pool":null}],"Members":{"":[{}]},"FloatingIPs":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := upstream(1, 2)
		if json.Unmarshal(data, &a) != nil {
			return
		}
		a.Now = now
		for _, s := range []*corev1.Service{service(), service(annotated(compat.AnnotationFloatingIPs, `["192.0.2.9"]`), local), service(ports(udpPort("dns", 53, 30053)))} {
			d := wants(s, 1, 3)
			first, second := Plan(d, a).Lines(), Plan(d, a).Lines()
			if !slices.Equal(first, second) {
				t.Errorf("first %q, then %q", first, second)
			}
		}
	})
}

// FuzzFind: whatever a tenant names in annotations, a load balancer with the tag of
// another cluster, or with the UID of another Service that lives, is not the Service's.
func FuzzFind(f *testing.F) {
	f.Add("", "", "k8s-service-deadbeef", "lb", "", false)
	f.Add("another", "deadbeef", "web", "lb", "web", true)
	f.Add("prod", "neighbour", "web", "lb", "web", false)
	f.Add("prod", "ended", "web", "", "web", true)
	f.Fuzz(func(t *testing.T, cluster, uid, name, asksID, asksName string, gone bool) {
		s, neighbour := service(annotated(compat.AnnotationUUID, asksID), annotated(compat.AnnotationName, asksName)), other("shop", "neighbour")
		b := &Backend{cluster: "prod", clusterUID: "of-kube-system"}
		w := wantOf(s, nil, []*corev1.Service{s, neighbour})
		w.Gone = gone
		o := cloudscale.LoadBalancer{UUID: "lb", Name: name, Tags: cloudscale.Tags{tagCluster: cluster, tagUID: uid}}
		if len(b.find(w, []cloudscale.LoadBalancer{o}).own) == 0 {
			return
		}
		if cluster != "" && cluster != "prod" && cluster != "of-kube-system" || uid == "neighbour" {
			t.Errorf("%+v is that of a Service that asks for %q, %q", o, asksID, asksName)
		}
	})
}
