package install

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"fairlead.io/charts"
)

// Our definitions of MetalLB's kinds take what MetalLB takes, refuse what one
// object shows to be wrong, and keep what they do not know.
func TestMetalLBKinds(t *testing.T) {
	t.Parallel()
	_, c := startAPI(t)
	for _, crd := range charts.MetalLBCRDs() {
		if err := c.Create(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all kinds can be used", func(ctx context.Context) error {
		for _, crd := range charts.MetalLBCRDs() {
			for _, v := range crd.Spec.Versions {
				var list unstructured.UnstructuredList
				list.SetAPIVersion(crd.Spec.Group + "/" + v.Name)
				list.SetKind(crd.Spec.Names.ListKind)
				if err := c.List(ctx, &list); err != nil {
					return err
				}
			}
		}
		return nil
	})
	t.Run("accepted", func(t *testing.T) { metallbAccepts(t, c) })
	t.Run("refused", func(t *testing.T) { metallbRefuses(t, c) })
	t.Run("kept", func(t *testing.T) { metallbKeeps(t, c) })
}

// metallbObject is an object with a spec.
func metallbObject(t *testing.T, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	var value map[string]any
	if err := yaml.Unmarshal([]byte(spec), &value); err != nil {
		t.Fatalf("%v in %s", err, spec)
	}
	o.Object["spec"] = value
	kind, version, other := strings.Cut(kind, ".")
	if !other {
		version = "v1beta1"
	}
	o.SetAPIVersion("metallb.io/" + version)
	o.SetKind(kind)
	o.SetNamespace("default")
	o.SetName("test")
	return o
}

func metallbAccepts(t *testing.T, c client.Client) {
	for name, o := range map[string][2]string{
		"a CIDR":                     {"IPAddressPool", `{addresses: [192.168.10.0/24]}`},
		"host bits":                  {"IPAddressPool", `{addresses: [192.168.10.77/24]}`},
		"a range":                    {"IPAddressPool", `{addresses: [192.168.9.1-192.168.9.5]}`},
		"a range with blanks":        {"IPAddressPool", `{addresses: ["192.168.9.1 - 192.168.9.5"]}`},
		"both families":              {"IPAddressPool", `{addresses: [192.168.9.1/32, "fc00:f853:0ccd:e799::/124", "fc01::1-fc01::ffff"]}`},
		"the longest of ranges":      {"IPAddressPool", `{addresses: ["` + longest + " - " + longest + `"]}`},
		"everything of a pool":       {"IPAddressPool", `{addresses: [1.1.1.0/24], autoAssign: false, avoidBuggyIPs: true, serviceAllocation: {priority: 50, namespaces: [a, b], namespaceSelectors: [{matchLabels: {foo: bar}}], serviceSelectors: [{matchExpressions: [{key: app, operator: In, values: [bar]}]}]}}`},
		"an empty allocation":        {"IPAddressPool", `{addresses: [1.1.1.0/24], serviceAllocation: {}}`},
		"many addresses":             {"IPAddressPool", `{addresses: [` + strings.TrimSuffix(strings.Repeat("10.0.0.0-10.0.0.9, ", 2048), ", ") + `]}`},
		"an empty advertisement":     {"L2Advertisement", `{}`},
		"everything of one":          {"L2Advertisement", `{ipAddressPools: [a, b], ipAddressPoolSelectors: [{matchLabels: {zone: east}}], nodeSelectors: [{matchLabels: {kubernetes.io/hostname: a}}], interfaces: [eth0, eth1], serviceSelectors: [{matchLabels: {app: x}}], preferredNodeSelectors: [{weight: 100, preference: {matchLabels: {rack: a}}}, {weight: 1, preference: {}}]}`},
		"a peer":                     {"BGPPeer.v1beta2", `{myASN: 64500, peerASN: 64501, peerAddress: 10.0.0.1, holdTime: 90s, nodeSelectors: [{matchLabels: {rack: a}}], passwordSecret: {name: x}}`},
		"a peer of old":              {"BGPPeer.v1beta1", `{myASN: 64500, peerASN: 64501, peerAddress: 10.0.0.1, nodeSelectors: [{matchLabels: {rack: a}}]}`},
		"an advertisement by BGP":    {"BGPAdvertisement", `{ipAddressPools: [a], aggregationLength: 32, localPref: 100, communities: ["65535:65282", no-advertise], peers: [p]}`},
		"a profile":                  {"BFDProfile", `{receiveInterval: 380, transmitInterval: 270, echoMode: true}`},
		"a community":                {"Community", `{communities: [{name: vpn1, value: "1234:1"}]}`},
		"what a speaker says by BGP": {"ServiceBGPStatus", `{}`},
		"what a speaker says":        {"ServiceL2Status", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.Create(t.Context(), metallbObject(t, o[0], o[1]), client.DryRunAll); err != nil {
				t.Error(err)
			}
		})
	}
}

func metallbRefuses(t *testing.T, c client.Client) {
	const syntax = "must be a CIDR without blanks around it (192.0.2.0/24; a single address is 192.0.2.1/32) or a range (192.0.2.1-192.0.2.9)"
	for name, o := range map[string]struct{ kind, spec, want string }{
		"no addresses":         {"IPAddressPool", `{autoAssign: true}`, "spec.addresses"},
		"an empty list":        {"IPAddressPool", `{addresses: []}`, "spec.addresses"},
		"a name":               {"IPAddressPool", `{addresses: [example.org]}`, syntax},
		"a single address":     {"IPAddressPool", `{addresses: [192.0.2.1]}`, syntax},
		"a blank":              {"IPAddressPool", `{addresses: [" 192.0.2.0/24"]}`, syntax},
		"a prefix too long":    {"IPAddressPool", `{addresses: [192.0.2.0/33]}`, syntax},
		"an octet too large":   {"IPAddressPool", `{addresses: [100.200.300.400/24]}`, syntax},
		"half a range":         {"IPAddressPool", `{addresses: ["192.0.2.1-"]}`, syntax},
		"three ends":           {"IPAddressPool", `{addresses: [192.0.2.1-192.0.2.2-192.0.2.3]}`, syntax},
		"mixed families":       {"IPAddressPool", `{addresses: ["192.0.2.1-2001:db8::1"]}`, "both ends of a range must be of one IP family"},
		"a namespace twice":    {"IPAddressPool", `{addresses: [192.0.2.0/24], serviceAllocation: {namespaces: [a, a]}}`, `spec.serviceAllocation.namespaces[1]: Duplicate value: "a"`},
		"a priority in words":  {"IPAddressPool", `{addresses: [192.0.2.0/24], serviceAllocation: {priority: high}}`, "spec.serviceAllocation.priority"},
		"a pool twice":         {"L2Advertisement", `{ipAddressPools: [a, a]}`, `spec.ipAddressPools[1]: Duplicate value: "a"`},
		"no weight":            {"L2Advertisement", `{preferredNodeSelectors: [{preference: {}}]}`, "spec.preferredNodeSelectors[0].weight"},
		"weight 0":             {"L2Advertisement", `{preferredNodeSelectors: [{weight: 0, preference: {}}]}`, "should be greater than or equal to 1"},
		"weight 101":           {"L2Advertisement", `{preferredNodeSelectors: [{weight: 101, preference: {}}]}`, "should be less than or equal to 100"},
		"no preference":        {"L2Advertisement", `{preferredNodeSelectors: [{weight: 1}]}`, "spec.preferredNodeSelectors[0].preference"},
		"a selector of labels": {"L2Advertisement", `{nodeSelectors: [{matchExpressions: [{operator: In}]}]}`, "spec.nodeSelectors[0].matchExpressions[0].key"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), metallbObject(t, o.kind, o.spec), client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), o.want) {
				t.Errorf("want it refused with %q, got %v", o.want, err)
			}
		})
	}
}

// metallbKeeps stores objects with fields that our definitions do not know, as a
// later MetalLB may have them, and reads them again: spec and status.
func metallbKeeps(t *testing.T, c client.Client) {
	for kind, o := range map[string]struct{ spec, status string }{
		"IPAddressPool":    {`{addresses: [192.0.2.0/24], autoAssign: true, avoidBuggyIPs: false, later: {a: 1}, serviceAllocation: {later: x}}`, `{assignedIPv4: 1, assignedIPv6: 0, availableIPv4: 2, availableIPv6: 0, later: {a: [1]}}`},
		"L2Advertisement":  {`{later: {a: 1}, preferredNodeSelectors: [{weight: 1, preference: {}, later: x}]}`, `{later: x}`},
		"ServiceL2Status":  {`{later: x}`, `{node: a, serviceName: b, serviceNamespace: c, interfaces: [{name: eth0, later: x}], later: x}`},
		"BGPPeer.v1beta2":  {`{myASN: 1, later: {a: [b]}}`, `{later: x}`},
		"BGPAdvertisement": {`{localPref: 1, later: {a: [b]}}`, `{later: x}`},
		"BFDProfile":       {`{echoMode: true, later: {a: [b]}}`, `{later: x}`},
		"Community":        {`{communities: [{name: a, value: b}], later: {a: [b]}}`, `{later: x}`},
		"ServiceBGPStatus": {`{later: x}`, `{node: a, peers: [x], later: x}`},
	} {
		t.Run(kind, func(t *testing.T) {
			want := metallbObject(t, kind, o.spec)
			if err := c.Create(t.Context(), want.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			var status map[string]any
			if err := yaml.Unmarshal([]byte(o.status), &status); err != nil {
				t.Fatal(err)
			}
			got := want.DeepCopy()
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
				t.Fatal(err)
			}
			got.Object["status"] = status
			if err := c.Status().Update(t.Context(), got); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
				t.Fatal(err)
			}
			for part, want := range map[string]string{"spec": o.spec, "status": o.status} {
				if d := cmp.Diff(plain(t, []byte(want)), plain(t, asYAML(t, got.Object[part]))); d != "" {
					t.Errorf("%s (-want +got):\n%s", part, d)
				}
			}
			if kind == "BGPPeer.v1beta2" { // stored in one version, read in the other
				old := metallbObject(t, "BGPPeer.v1beta1", "{}")
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(want), old); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(plain(t, []byte(o.spec)), plain(t, asYAML(t, old.Object["spec"]))); d != "" {
					t.Errorf("as v1beta1 (-want +got):\n%s", d)
				}
			}
		})
	}
}

func asYAML(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// plain reads YAML into values that can be compared.
func plain(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
