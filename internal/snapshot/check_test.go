package snapshot

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ciliumPools is a cluster that has nothing but pools of Cilium, in one version.
type ciliumPools struct {
	client.Reader
	version string
	items   []unstructured.Unstructured
	err     error
}

func (p ciliumPools) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	kind := list.GetObjectKind().GroupVersionKind()
	if p.err != nil {
		return p.err
	}
	all, is := list.(*unstructured.UnstructuredList)
	if !is || kind.Kind != "CiliumLoadBalancerIPPoolList" || kind.Version != p.version {
		return &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
	}
	all.Items = p.items
	return nil
}

// Another load balancer is a problem if it serves Services without a class, and only then.
func TestOtherLoadBalancers(t *testing.T) {
	const wins, fails = "two controllers of one class overwrite each other", Failed
	pool := func(disabled bool) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disabled": disabled}}}
	}
	digest := "@sha256:" + strings.Repeat("0", 64)
	for name, test := range map[string]struct {
		image string
		args  []string
		env   []corev1.EnvVar
		pools ciliumPools
		mark  Mark
		fact  string
	}{
		"nothing":          {image: "nginx:1.29", mark: Passed, fact: "no pod of a known one runs"},
		"another image":    {image: "example.com/not-metallb/controllers:v1", mark: Passed, fact: "no pod of a known one runs"},
		"MetalLB":          {image: "quay.io/metallb/controller:v0.15.2", args: []string{"--port=7472"}, mark: fails, fact: "MetalLB runs (pod lb/other): " + wins},
		"MetalLB, mirror":  {image: "registry.example:5000/rancher/mirrored-metallb-controller" + digest, mark: fails, fact: "MetalLB runs"},
		"MetalLB, class":   {image: "quay.io/metallb/controller:v0.15.2", args: []string{"--lb-class=example.com/lan"}, mark: Passed, fact: `serves only class "example.com/lan"`},
		"MetalLB, flag":    {image: "quay.io/metallb/controller:v0.15.2", args: []string{"-lb-class", "example.com/lan"}, mark: Passed, fact: `serves only class "example.com/lan"`},
		"MetalLB, speaker": {image: "quay.io/metallb/speaker:v0.15.2", mark: Passed, fact: "no pod of a known one runs"},
		"provider":         {image: "ghcr.io/kube-vip/kube-vip-cloud-provider:v0.0.12", mark: fails, fact: "kube-vip-cloud-provider runs"},
		"provider, class": {image: "ghcr.io/kube-vip/kube-vip-cloud-provider" + digest, env: []corev1.EnvVar{{Name: "KUBEVIP_ENABLE_LOADBALANCERCLASS", Value: "true"}},
			mark: Passed, fact: `serves only class "kube-vip.io/kube-vip-class"`},
		"kube-vip":         {image: "ghcr.io/kube-vip/kube-vip:v1.0.1", env: []corev1.EnvVar{{Name: "svc_enable", Value: "true"}}, mark: fails, fact: "kube-vip runs"},
		"kube-vip, digest": {image: "ghcr.io/kube-vip/kube-vip" + digest, env: []corev1.EnvVar{{Name: "svc_enable", Value: "true"}}, mark: fails, fact: "kube-vip runs"},
		"kube-vip, both":   {image: "ghcr.io/kube-vip/kube-vip-iptables:v1.0.1" + digest, args: []string{"manager", "--services"}, mark: fails, fact: "kube-vip runs"},
		"kube-vip, API":    {image: "ghcr.io/kube-vip/kube-vip:v1.0.1", env: []corev1.EnvVar{{Name: "cp_enable", Value: "true"}}, mark: Passed, fact: "kube-vip runs (pod lb/other), and serves no Services"},
		"kube-vip, class": {image: "ghcr.io/kube-vip/kube-vip:v1.0.1", env: []corev1.EnvVar{{Name: "svc_enable", Value: "true"}, {Name: "lb_class_only", Value: "true"}, {Name: "lb_class_name", Value: "example.com/vip"}},
			mark: Passed, fact: `serves only class "example.com/vip"`},
		"K3s ServiceLB":          {image: "rancher/klipper-lb:v0.4.13", mark: fails, fact: "K3s ServiceLB runs"},
		"K3s ServiceLB, mirror":  {image: "registry.example/rancher/mirrored-klipper-lb" + digest, mark: fails, fact: "K3s ServiceLB runs"},
		"PureLB":                 {image: "ghcr.io/purelb/purelb/allocator:v0.13.0", mark: fails, fact: "PureLB runs"},
		"OpenELB":                {image: "docker.io/openelb/openelb:v0.6.0", mark: fails, fact: "OpenELB runs"},
		"Cilium, no CRD":         {image: "quay.io/cilium/cilium:v1.18.2" + digest, mark: Skipped, fact: "and serves no Services: there is no CiliumLoadBalancerIPPool that is enabled"},
		"Cilium, no pool":        {image: "quay.io/cilium/cilium:v1.18.2", pools: ciliumPools{version: "v2"}, mark: Skipped, fact: "and serves no Services"},
		"Cilium, disabled":       {image: "quay.io/cilium/cilium:v1.18.2", pools: ciliumPools{version: "v2", items: []unstructured.Unstructured{pool(true)}}, mark: Skipped, fact: "and serves no Services"},
		"Cilium, pool":           {image: "quay.io/cilium/cilium:v1.18.2", pools: ciliumPools{version: "v2", items: []unstructured.Unstructured{pool(true), pool(false)}}, mark: fails, fact: "Cilium runs"},
		"Cilium, pool of before": {image: "rancher/mirrored-cilium-cilium:v1.16.0", pools: ciliumPools{version: "v2alpha1", items: []unstructured.Unstructured{pool(false)}}, mark: fails, fact: "Cilium runs"},
		"Cilium, no right": {image: "quay.io/cilium/cilium:v1.18.2", pools: ciliumPools{err: apierrors.NewForbidden(schema.GroupResource{}, "", nil)},
			mark: Unclear, fact: "unknown: cannot list ciliumloadbalancerippools"},
		"cloudscale":   {image: "quay.io/cloudscalech/cloudscale-cloud-controller-manager:1.3.0", mark: fails, fact: "cloudscale-cloud-controller-manager runs"},
		"kube-dc":      {image: "shalb/kube-dc-manager:v0.1.30", mark: fails, fact: "kube-dc-manager runs"},
		"CCM":          {image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.35.0", mark: fails, fact: "a cloud controller manager runs"},
		"CCM, nodes":   {image: "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.35.0", args: []string{"--controllers=*,-service"}, mark: Passed, fact: "and serves no Services"},
		"CCM, another": {image: "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.35.0", args: []string{"--controllers=*,-route"}, mark: fails, fact: "a cloud controller manager runs"},
	} {
		t.Run(name, func(t *testing.T) {
			var c Checks
			c.others(t.Context(), test.pools, []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "lb", Name: "other"}, Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Image: "example.com/sidecar:1"}, {Image: test.image, Args: test.args, Env: test.env}}}}})
			if len(c.Checks) != 1 || c.Checks[0].Mark != test.mark || !strings.Contains(c.Checks[0].Fact, test.fact) || (c.Checks[0].Fix != "") != (test.mark == Failed) {
				t.Errorf("%+v", c.Checks)
			}
		})
	}
	t.Run("one of two serves all", func(t *testing.T) {
		pod := func(name string, args ...string) corev1.Pod {
			return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lb", Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "quay.io/metallb/controller:v0.15.2", Args: args}}}}
		}
		var c Checks
		c.others(t.Context(), ciliumPools{}, []corev1.Pod{pod("a", "--lb-class=example.com/lan"), pod("b"), pod("c")})
		if len(c.Checks) != 1 || c.Checks[0].Mark != Failed || !strings.Contains(c.Checks[0].Fact, "pod lb/b") {
			t.Errorf("%+v", c.Checks)
		}
	})
}

// A version that was not tried is noted; one that rejects the CRDs is a problem.
func TestVersions(t *testing.T) {
	for minor, want := range map[string]Mark{"30": Failed, "31": Noted, "34": Noted, "35": Passed, "36": Passed, "37": Passed, "37+": Passed, "38": Noted, "": Unclear} {
		if got := versionCheck(&version.Info{Major: "1", Minor: minor, GitVersion: "v1." + minor + ".0"}); got.Mark != want {
			t.Errorf("1.%s is %s, want %s", minor, got.Mark, want)
		}
	}
	got := versionCheck(&version.Info{Major: "1", Minor: "35", GitVersion: "v1.35.8"})
	if want := "v1.35.8 (the controller is tested with it; agents on nodes only with 1.37)"; got.Fact != want {
		t.Errorf("of 1.35 it says %q, want %q", got.Fact, want)
	}
	if got := versionCheck(&version.Info{Major: "2", Minor: "36"}); got.Mark != Failed {
		t.Errorf("2.36 is %s", got.Mark)
	}
	noted := Checks{Checks: []Check{versionCheck(&version.Info{Major: "1", Minor: "38"})}}
	if noted.Health() != Healthy {
		t.Error("a newer version fails")
	}
}
