package kubeapi

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"fairlead.io/internal/lb"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// has is a Service that says something already.
const has = `
metadata:
  resourceVersion: "7"
  annotations: {a: b, empty: ""}
  labels: {c: d}
  finalizers: [example.com/mine, example.com/other]
spec: {loadBalancerIP: 192.0.2.9}
status:
  loadBalancer: {ingress: [{ip: 192.0.2.7, ipMode: VIP}]}
  conditions:
  - {type: other, status: "True", reason: Other, message: Other., lastTransitionTime: "2026-03-01T09:00:00Z"}
  - {type: fairlead.io/Ready, status: "True", reason: Ready, message: Here., lastTransitionTime: "2026-03-01T10:00:00Z"}
`

// placed is one whose address is on a node.
const placed = `
metadata: {resourceVersion: "7"}
status:
  conditions: [{type: fairlead.io/Placed, status: "True", reason: Placed, message: "192.0.2.7: a", lastTransitionTime: "2026-03-01T09:00:00Z"}]
`

// Whatever an outcome is, it is one patch, after which there is none. What goes to the
// object, which is where the spec is, is written first; the status is then made again.
func TestPatch(t *testing.T) {
	text := func(s string) *string { return &s }
	ready := lb.Rebuilt(lb.Ready, "Here.", true)
	vip := func(ip string) lb.Ingress { return lb.Ingress{IP: ip, Mode: lb.IPModeVIP} }
	for name, test := range map[string]struct {
		service        string
		outcome        lb.Outcome
		object, status string
	}{
		"nothing":                {service: has},
		"nothing, on nothing":    {service: `{}`},
		"reason alone":           {service: has, outcome: lb.Outcome{Reason: lb.Rebuilt(lb.NoPool, "None.", false)}},
		"as it is":               {service: has, outcome: lb.Outcome{Reason: ready, Condition: lb.ConditionSays, Ingress: []lb.Ingress{vip("192.0.2.7")}, Marks: lb.Marks{Annotations: map[string]string{"a": "b", "x": ""}, Labels: map[string]string{"c": "d", "x": ""}, Finalizers: []string{"example.com/mine"}, Removed: []string{"example.com/x"}, LoadBalancerIP: text("192.0.2.9")}}},
		"cleared, and is so":     {service: `{}`, outcome: lb.Outcome{Ingress: []lb.Ingress{}, Condition: lb.ConditionGoes, Marks: lb.Marks{LoadBalancerIP: text("")}}},
		"cleared":                {service: has, outcome: lb.Outcome{Ingress: []lb.Ingress{}}, status: `{"metadata":{"resourceVersion":"7"},"status":{"loadBalancer":{"ingress":null}}}`},
		"published":              {service: has, outcome: lb.Outcome{Ingress: []lb.Ingress{vip("192.0.2.7"), vip("2001:db8::7")}}, status: `{"metadata":{"resourceVersion":"7"},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7","ipMode":"VIP"},{"ip":"2001:db8::7","ipMode":"VIP"}]}}}`},
		"another order":          {service: `{status: {loadBalancer: {ingress: [{ip: 2001:db8::7, ipMode: VIP}, {ip: 192.0.2.7, ipMode: VIP}]}}}`, outcome: lb.Outcome{Ingress: []lb.Ingress{vip("192.0.2.7"), vip("2001:db8::7")}}, status: `{"metadata":{"resourceVersion":""},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7","ipMode":"VIP"},{"ip":"2001:db8::7","ipMode":"VIP"}]}}}`},
		"another mode":           {service: has, outcome: lb.Outcome{Ingress: []lb.Ingress{{IP: "192.0.2.7", Mode: lb.IPModeProxy}}}, status: `{"metadata":{"resourceVersion":"7"},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7","ipMode":"Proxy"}]}}}`},
		"a host name":            {service: has, outcome: lb.Outcome{Ingress: []lb.Ingress{{Hostname: "web.example"}}}, status: `{"metadata":{"resourceVersion":"7"},"status":{"loadBalancer":{"ingress":[{"hostname":"web.example"}]}}}`},
		"with ports of somebody": {service: `{status: {loadBalancer: {ingress: [{ip: 192.0.2.7, ipMode: VIP, ports: [{port: 80, protocol: TCP}]}]}}}`, outcome: lb.Outcome{Ingress: []lb.Ingress{vip("192.0.2.7")}}, status: `{"metadata":{"resourceVersion":""},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7","ipMode":"VIP"}]}}}`},

		"other words":         {service: has, outcome: lb.Outcome{Condition: lb.ConditionSays, Reason: lb.Rebuilt(lb.Ready, "There.", true)}, status: `{"metadata":{"resourceVersion":"7"},"status":{"conditions":[{"type":"fairlead.io/Ready","status":"True","lastTransitionTime":"2026-03-01T10:00:00Z","reason":"Ready","message":"There."}]}}`},
		"not any more":        {service: has, outcome: lb.Outcome{Condition: lb.ConditionSays, Reason: lb.Rebuilt(lb.NoPool, "None.", false)}, status: `{"metadata":{"resourceVersion":"7"},"status":{"conditions":[{"type":"fairlead.io/Ready","status":"False","lastTransitionTime":"2026-03-01T12:00:00Z","reason":"NoPool","message":"None."}]}}`},
		"the first condition": {service: `{}`, outcome: lb.Outcome{Condition: lb.ConditionSays, Reason: ready}, status: `{"metadata":{"resourceVersion":""},"status":{"conditions":[{"type":"fairlead.io/Ready","status":"True","lastTransitionTime":"2026-03-01T12:00:00Z","reason":"Ready","message":"Here."}]}}`},
		"condition goes":      {service: has, outcome: lb.Outcome{Condition: lb.ConditionGoes}, status: `{"metadata":{"resourceVersion":"7"},"status":{"conditions":[{"$patch":"delete","type":"fairlead.io/Ready"}]}}`},

		"annotations":    {service: has, outcome: lb.Outcome{Marks: lb.Marks{Annotations: map[string]string{"a": "", "empty": "", "n": "1"}}}, status: `{"metadata":{"annotations":{"a":null,"empty":null,"n":"1"},"resourceVersion":"7"}}`},
		"labels":         {service: has, outcome: lb.Outcome{Marks: lb.Marks{Labels: map[string]string{"c": "e", "n": "1"}}}, status: `{"metadata":{"labels":{"c":"e","n":"1"},"resourceVersion":"7"}}`},
		"finalizers":     {service: has, outcome: lb.Outcome{Keep: true, Marks: lb.Marks{Finalizers: []string{"example.com/mine", "example.com/new"}}}, status: `{"metadata":{"finalizers":["example.com/new"],"resourceVersion":"7"}}`},
		"finalizer goes": {service: has, outcome: lb.Outcome{Marks: lb.Marks{Removed: []string{"example.com/mine", "example.com/x"}}}, status: `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/mine"],"resourceVersion":"7"}}`},
		"all in one":     {service: has, outcome: lb.Outcome{Reason: lb.Rebuilt(lb.Ready, "There.", true), Condition: lb.ConditionSays, Ingress: []lb.Ingress{}, Marks: lb.Marks{Annotations: map[string]string{"a": ""}, Labels: map[string]string{"c": ""}, Removed: []string{"example.com/mine"}}}, status: `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/mine"],"annotations":{"a":null},"labels":{"c":null},"resourceVersion":"7"},"status":{"conditions":[{"type":"fairlead.io/Ready","status":"True","lastTransitionTime":"2026-03-01T10:00:00Z","reason":"Ready","message":"There."}],"loadBalancer":{"ingress":null}}}`},

		"placed":        {service: `{}`, outcome: lb.Outcome{Carriers: lb.Carriers{netip.MustParseAddr("192.0.2.7"): {"a", "b"}}}, status: `{"metadata":{"resourceVersion":""},"status":{"conditions":[{"type":"fairlead.io/Placed","status":"True","lastTransitionTime":"2026-03-01T12:00:00Z","reason":"Placed","message":"192.0.2.7: a, b"}]}}`},
		"placed so":     {service: placed, outcome: lb.Outcome{Carriers: lb.Carriers{netip.MustParseAddr("192.0.2.7"): {"a"}}}},
		"stays placed":  {service: placed, outcome: lb.Outcome{}},
		"off its nodes": {service: placed, outcome: lb.Outcome{Carriers: lb.Carriers{}}, status: `{"metadata":{"resourceVersion":"7"},"status":{"conditions":[{"$patch":"delete","type":"fairlead.io/Placed"}]}}`},
		"gone":          {service: placed, outcome: lb.Outcome{Condition: lb.ConditionGoes}, status: `{"metadata":{"resourceVersion":"7"},"status":{"conditions":[{"$patch":"delete","type":"fairlead.io/Placed"}]}}`},

		"in the spec":             {service: `{}`, outcome: lb.Outcome{Marks: lb.Marks{Annotations: map[string]string{"a": "b"}, LoadBalancerIP: text("192.0.2.7")}}, object: `{"metadata":{"annotations":{"a":"b"},"resourceVersion":""},"spec":{"loadBalancerIP":"192.0.2.7"}}`},
		"off the spec":            {service: has, outcome: lb.Outcome{Marks: lb.Marks{Removed: []string{"example.com/mine"}, LoadBalancerIP: text("")}}, object: `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/mine"],"resourceVersion":"7"},"spec":{"loadBalancerIP":null}}`},
		"in the spec, and status": {service: has, outcome: lb.Outcome{Condition: lb.ConditionGoes, Marks: lb.Marks{LoadBalancerIP: text("192.0.2.7")}}, object: `{"metadata":{"resourceVersion":"7"},"spec":{"loadBalancerIP":"192.0.2.7"}}`, status: `{"metadata":{"resourceVersion":"7"},"status":{"conditions":[{"$patch":"delete","type":"fairlead.io/Ready"}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse[corev1.Service](t, test.service)
			p := Patch(Service(s), &test.outcome, noon)
			if string(p.Object) != test.object || string(p.Status) != test.status || p.Empty() != (test.object == "" && test.status == "") {
				t.Errorf("object %s\nwant   %s\nstatus %s\nwant   %s", p.Object, test.object, p.Status, test.status)
			}
			for range 2 { // the object, then the status
				for _, patch := range [][]byte{p.Object, p.Status} {
					if patch != nil {
						s = patched(t, s, patch)
						break
					}
				}
				p = Patch(Service(s), &test.outcome, noon.Add(time.Hour))
			}
			if !p.Empty() {
				t.Errorf("afterwards: object %s, status %s", p.Object, p.Status)
			}
		})
	}
}

// patched does what the API server does.
func patched(t *testing.T, s *corev1.Service, patch []byte) *corev1.Service {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(raw, patch, corev1.Service{})
	if err != nil {
		t.Fatalf("%v in %s", err, patch)
	}
	var out corev1.Service
	if err := json.Unmarshal(merged, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}
