package announce_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/backend/announce"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

var all = &announce.Backend{Dialects: []compat.Dialect{native.Dialect{}, metallb.Dialect{}, kubevip.Dialect{}}}

// patch is what makes s say what the backend says of w, whose Service is s.
func patch(t *testing.T, b *announce.Backend, s *corev1.Service, w lb.Want) []byte {
	t.Helper()
	w.Service = *kubeapi.Service(s)
	out, err := b.Sync(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	p := kubeapi.Patch(&w.Service, &out, time.Now())
	if p.Object != nil {
		t.Errorf("the object itself is written: %s", p.Object)
	}
	return p.Status
}

// annotations that a patch changes; nil is one that it removes.
func annotations(t *testing.T, patch []byte) map[string]any {
	t.Helper()
	var p struct {
		Metadata struct{ Annotations map[string]any }
	}
	if len(patch) > 0 {
		if err := json.Unmarshal(patch, &p); err != nil {
			t.Fatal(err)
		}
	}
	return p.Metadata.Annotations
}

// The patch of a Service names its pool in both annotations, takes off what is
// not so any more, and nothing else.
func TestAnnotationsOfPools(t *testing.T) {
	lan, edge := lb.PoolKey{Dialect: metallb.Name, Name: "lan"}, lb.PoolKey{Dialect: lb.Native, Name: "edge"}
	theirsToo := lb.PoolKey{Dialect: kubevip.Name, Name: "cidr-global"}
	const ours, theirs, dhcp, reason = "fairlead.io/allocated-from", "metallb.io/ip-allocated-from-pool", "fairlead.io/dhcp", "fairlead.io/reason"
	const host = "kube-vip.io/vipHost"
	has := []netip.Addr{netip.MustParseAddr("192.0.2.7")}
	for name, test := range map[string]struct {
		has     map[string]string
		v       lb.Verdict
		carrier string
		want    map[string]any
	}{
		"new, of MetalLB's":       {v: lb.Verdict{Pools: []lb.PoolKey{lan}}, want: map[string]any{ours: "metallb/lan", theirs: "lan"}},
		"new, of ours":            {v: lb.Verdict{Pools: []lb.PoolKey{edge}}, want: map[string]any{ours: "edge"}},
		"from MetalLB":            {has: map[string]string{theirs: "lan"}, v: lb.Verdict{Pools: []lb.PoolKey{lan}}, want: map[string]any{ours: "metallb/lan"}},
		"from MetalLB, no longer": {has: map[string]string{theirs: "lan"}, v: lb.Verdict{Pools: []lb.PoolKey{edge}}, want: map[string]any{ours: "edge", theirs: nil}},
		"no address any more":     {has: map[string]string{ours: "metallb/lan", theirs: "lan"}, want: map[string]any{ours: nil, theirs: nil}},
		"empty by hand":           {has: map[string]string{theirs: ""}, want: map[string]any{theirs: nil}},
		"as it should be":         {has: map[string]string{ours: "metallb/lan", theirs: "lan", "other": "x"}, v: lb.Verdict{Pools: []lb.PoolKey{lan}}},
		"never ours":              {has: map[string]string{"other": "x"}},

		"out of pool":            {has: map[string]string{ours: "metallb/lan", theirs: "lan", dhcp: "IPv4"}, v: lb.Verdict{Addresses: has}},
		"of a DHCP server":       {v: lb.Verdict{Addresses: has, Pools: []lb.PoolKey{edge}, DHCP: [len(lb.Families)]bool{lb.IPv4: true}}, want: map[string]any{ours: "edge", dhcp: "IPv4"}},
		"kube-vip announced it":  {has: map[string]string{reason: "PoolExhausted: Full."}, v: lb.Verdict{Addresses: has, Pools: []lb.PoolKey{edge}}, want: map[string]any{ours: "edge", reason: nil}},
		"at a node":              {v: lb.Verdict{Addresses: has, Pools: []lb.PoolKey{theirsToo}}, carrier: "a", want: map[string]any{ours: "kube-vip/cidr-global", host: "a"}},
		"at another node":        {has: map[string]string{ours: "kube-vip/cidr-global", host: "a"}, v: lb.Verdict{Addresses: has, Pools: []lb.PoolKey{theirsToo}}, carrier: "b", want: map[string]any{host: "b"}},
		"at no node":             {has: map[string]string{ours: "kube-vip/cidr-global", host: "a"}, v: lb.Verdict{Addresses: has, Pools: []lb.PoolKey{theirsToo}}},
		"at a node, of our pool": {v: lb.Verdict{Addresses: has, Pools: []lb.PoolKey{edge}}, carrier: "a", want: map[string]any{ours: "edge"}},
	} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: test.has}}
		got := annotations(t, patch(t, all, s, lb.Want{Verdict: test.v, Carrier: test.carrier}))
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A Service that MetalLB has left is adopted with one patch, after which nothing
// is left to say; releasing it takes off all that names a pool.
func TestAdoptedServiceIsWrittenOnce(t *testing.T) {
	vip := corev1.LoadBalancerIPModeVIP
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{metallb.AnnotationAllocatedFrom: "lan"}}}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.7", IPMode: &vip}}
	want := lb.Want{Verdict: lb.Verdict{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}, Pools: []lb.PoolKey{{Dialect: metallb.Name, Name: "lan"}}, Reason: lb.Ready.Say("192.0.2.7", "pool lan")}}
	var written struct {
		Metadata struct{ Annotations map[string]string }
		Status   struct{ Conditions []metav1.Condition }
	}
	raw := patch(t, all, s, want)
	if err := json.Unmarshal(raw, &written); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "loadBalancer") {
		t.Errorf("what it has is written again: %s", raw)
	}
	for key, value := range written.Metadata.Annotations {
		s.Annotations[key] = value
	}
	s.Status.Conditions = written.Status.Conditions
	if again := patch(t, all, s, want); again != nil {
		t.Errorf("a second write: %s", again)
	}
	if !kubeapi.Service(s).Attested() {
		t.Error("the addresses are not known as ours")
	}
	if !all.Marked(kubeapi.Service(s)) {
		t.Error("nobody knows that something of ours is on it")
	}
	release := string(patch(t, all, s, lb.Want{Gone: true}))
	for _, part := range []string{
		`"metallb.io/ip-allocated-from-pool":null`, `"fairlead.io/allocated-from":null`,
		`"loadBalancer":{"ingress":null}`, `"$patch":"delete"`, `"resourceVersion":"7"`,
	} {
		if !strings.Contains(release, part) {
			t.Errorf("released with %s, without %s", release, part)
		}
	}
}

// What somebody else has written into the status is not ours to take off, and who
// has nothing of ours is not touched.
func TestReleaseLeavesWhatIsOthers(t *testing.T) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"other": "x"}}}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.7"}}
	if all.Marked(kubeapi.Service(s)) {
		t.Error("it has something of ours, it is said")
	}
	if release := patch(t, all, s, lb.Want{Gone: true}); release != nil {
		t.Errorf("never ours, released with %s", release)
	}
	s.Status.Conditions = []metav1.Condition{{Type: kubeapi.ConditionReady, Reason: string(lb.Ready), Message: "The Service has 192.0.2.8."}}
	if release := string(patch(t, all, s, lb.Want{Gone: true})); strings.Contains(release, "loadBalancer") || !strings.Contains(release, `"$patch":"delete"`) {
		t.Errorf("overwritten by somebody, released with %s", release)
	}
}
