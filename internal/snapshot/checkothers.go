package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/config"
	"fairlead.io/internal/prose"
)

// ownClass is what to do about a load balancer that serves Services without a class.
const ownClass = "give Fairlead its own class: chart value loadBalancerClass."

// balancer is another program that serves Services of type LoadBalancer.
type balancer struct {
	name string
	// images are ends of the image of its pods, without tag and digest.
	images []string
	fix    string
	// classes are those that a pod of it serves; "" stands for Services without one, and none
	// is that it serves no Service. If it is not set, Services without a class are served.
	classes func(daemon) []string
	// pools have the addresses that it gives to Services; without one it serves none.
	pools schema.GroupVersionKind
}

// balancers are those that are known.
var balancers = []balancer{
	{name: "MetalLB", images: []string{"metallb/controller", "metallb-controller"}, classes: metalLBClasses,
		fix: "Replace it: docs/guides/migrate-from-metallb.md. Or " + ownClass},
	{name: "kube-vip-cloud-provider", images: []string{"kube-vip-cloud-provider"}, classes: providerClasses,
		fix: "Replace it: docs/guides/migrate-from-kube-vip.md. Or " + ownClass},
	{name: "kube-vip", images: []string{"kube-vip", "kube-vip-iptables"}, classes: kubeVIPClasses,
		fix: "Replace it, or keep it as the announcer: docs/guides/migrate-from-kube-vip.md. Or " + ownClass},
	{name: "K3s ServiceLB", images: []string{"klipper-lb"}, fix: "Start K3s with --disable=servicelb, or " + ownClass},
	{name: "PureLB", images: []string{"purelb/allocator", "purelb-allocator"}, fix: "G" + ownClass[1:]},
	{name: "OpenELB", images: []string{"openelb/openelb", "openelb-openelb", "openelb-manager"}, fix: "G" + ownClass[1:]},
	{name: "Cilium", images: []string{"cilium/cilium", "cilium-cilium"}, pools: schema.GroupVersionKind{Group: "cilium.io", Version: "v2", Kind: "CiliumLoadBalancerIPPool"},
		fix: "G" + ownClass[1:]},
	{name: "cloudscale-cloud-controller-manager", images: []string{"cloudscale-cloud-controller-manager"}, classes: managerClasses, fix: "Replace it: docs/guides/migrate-from-cloudscale-ccm.md."},
	{name: "kube-dc-manager", images: []string{"kube-dc-manager"}, fix: "Replace it: docs/guides/migrate-from-kube-dc.md. Or give Fairlead its own class: chart value classes, and ovn.eips=use."},
	{name: "a cloud controller manager", images: []string{"cloud-controller-manager"}, classes: managerClasses, fix: "Disable its controller \"service\" (--controllers=*,-service), or " + ownClass},
}

// metalLBClasses: with --lb-class, MetalLB serves that class only.
func metalLBClasses(d daemon) []string { return []string{d.flag("lb-class")} }

// providerClasses: in its class mode, kube-vip's cloud provider serves one class only.
func providerClasses(d daemon) []string {
	only, _ := strconv.ParseBool(d.getenv(config.EnvKubeVIPClassMode))
	if served, err := config.FromEnv(d.getenv); err == nil && only {
		for _, c := range served.Classes {
			if c.Backend == config.KubeVIP {
				return []string{c.Name}
			}
		}
	}
	return []string{""}
}

// kubeVIPClasses are those of kube-vip itself, which serves no Service unless it is told to.
func kubeVIPClasses(d daemon) []string {
	if on, _ := strconv.ParseBool(d.getenv("svc_enable")); !on && d.flag("services") != "true" {
		return nil
	}
	classes, err := config.KubeVIPClassesFrom(d.environ())
	if err != nil || classes == nil {
		return []string{""}
	}
	return classes
}

// managerClasses: a cloud controller manager may have its controller for Services disabled.
func managerClasses(d daemon) []string {
	for name := range strings.SplitSeq(d.flag("controllers"), ",") {
		if name == "-service" || name == "-service-lb-controller" {
			return nil
		}
	}
	return []string{""}
}

// runs says whether an image is of the program.
func (b balancer) runs(image string) bool {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		image = image[:i]
	}
	return slices.ContainsFunc(b.images, func(end string) bool {
		before, is := strings.CutSuffix(image, end)
		return is && (before == "" || strings.HasSuffix(before, "/") || strings.HasSuffix(before, "-"))
	})
}

// check says whether a pod of the program serves Services that Fairlead would serve.
func (b balancer) check(ctx context.Context, reader client.Reader, p *corev1.Pod, container int) Check {
	x := Check{Name: checkOthers, Mark: Failed, Fact: fmt.Sprintf("%s runs (pod %s/%s): two controllers of one class overwrite each other", b.name, p.Namespace, p.Name), Fix: b.fix}
	idle := func(mark Mark, format string, args ...any) Check {
		return Check{Name: checkOthers, Mark: mark, Fact: fmt.Sprintf("%s runs (pod %s/%s), ", b.name, p.Namespace, p.Name) + fmt.Sprintf(format, args...)}
	}
	if b.classes != nil {
		one := p.DeepCopy()
		one.Spec.Containers = one.Spec.Containers[container : container+1]
		classes := b.classes(daemonOf(one))
		switch {
		case len(classes) == 0:
			return idle(Passed, "and serves no Services")
		case !slices.Contains(classes, ""):
			return idle(Passed, "and serves only class %s; do not give Fairlead that class", prose.And(quoted(classes)))
		}
	}
	if b.pools.Empty() {
		return x
	}
	switch n, err := activePools(ctx, reader, b.pools); {
	case apierrors.IsForbidden(err):
		return idle(Unclear, "unknown: cannot list %ss, so whether it serves Services is not known", strings.ToLower(b.pools.Kind))
	case err != nil:
		return idle(Unclear, "unknown: cannot list %ss: %v", strings.ToLower(b.pools.Kind), err)
	case n == 0:
		return idle(Skipped, "and serves no Services: there is no %s that is enabled", b.pools.Kind)
	}
	return x
}

func quoted(names []string) (out []string) {
	for _, n := range names {
		out = append(out, fmt.Sprintf("%q", n))
	}
	return out
}

// activePools counts objects that are not disabled. Their CRD may be missing, or have another
// version.
func activePools(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind) (int, error) {
	n := 0
	for _, version := range []string{kind.Version, kind.Version + "alpha1"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: version, Kind: kind.Kind + "List"})
		err := reader.List(ctx, list)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		for _, o := range list.Items {
			if disabled, _, _ := unstructured.NestedBool(o.Object, "spec", "disabled"); !disabled {
				n++
			}
		}
		return n, nil
	}
	return n, nil
}

// checkOthers is the name of the check for other load balancers.
const checkOthers = "other load balancers"

// others looks for programs that serve the same Services.
func (c *Checks) others(ctx context.Context, reader client.Reader, pods []corev1.Pod) {
	found := map[string]int{} // where the check of each is
	for i := range pods {
		p := &pods[i]
		if p.Labels[labelName] == labelFairlead || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, b := range balancers {
			container := slices.IndexFunc(p.Spec.Containers, func(k corev1.Container) bool { return b.runs(k.Image) })
			if container < 0 {
				continue
			}
			at, known := found[b.name]
			if known && (b.classes == nil || c.Checks[at].Mark == Failed) {
				break
			}
			x := b.check(ctx, reader, p, container)
			if known && x.Mark == Failed { // another pod of it serves other classes
				c.Checks[at] = x
			} else if !known {
				found[b.name] = len(c.Checks)
				c.add(x)
			}
			break
		}
	}
	if len(found) == 0 {
		c.add(Check{Name: checkOthers, Mark: Passed, Fact: "no pod of a known one runs; those outside of the pods of this cluster, such as that of a cloud, were not looked for"})
	}
}
