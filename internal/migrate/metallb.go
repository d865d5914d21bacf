package migrate

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/config"
	"fairlead.io/internal/prose"
)

var metalLB = Source{
	Name: "metallb", Title: "MetalLB", guide: "migrate-from-metallb.md",
	workloads: metalLBWorkloads, assess: assessMetalLB,
}

// metalLBHome is the namespace of MetalLB's own manifests. Fairlead reads objects there
// unless it is told otherwise.
const metalLBHome = "metallb-system"

func metalLBWorkloads(c *cluster) []Workload {
	return c.workloads(
		part{component: "controller", images: []string{"metallb/controller"}, names: []string{"metallb-controller"}},
		part{component: "speaker", images: []string{"metallb/speaker"}, names: []string{"metallb-speaker"}},
	)
}

func assessMetalLB(ctx context.Context, c *cluster, o Options, f *finding) (err error) {
	controller, speaker := c.component("controller"), c.component("speaker")
	if controller == nil || speaker == nil || len(c.found) != 2 || controller.Namespace != speaker.Namespace {
		var names []string
		for _, w := range c.found {
			names = append(names, w.name())
		}
		f.refuse("MetalLB", fmt.Sprintf("there are %s; the guide is for one controller and one DaemonSet of speakers in one namespace", prose.And(names)), "Follow the guide by hand.")
		return nil
	}
	namespace := controller.Namespace
	class, classed := controller.flag("lb-class")
	classed = classed && class != ""
	f.config, f.metallbNamespace = config.Default(), namespace
	if classed {
		if f.config, err = f.config.OnlyClass(class); err != nil {
			return err
		}
	}
	if err := f.metalLBObjects(ctx, c); err != nil {
		return err
	}
	bgp, err := f.readMetalLBBGP(ctx, c, o, speaker)
	if err != nil {
		return err
	}
	v := metalLBValues(o, controller, speaker, bgp)
	hook := "metallb-webhook-configuration"
	for i := range c.webhooks.Items {
		for _, w := range c.webhooks.Items[i].Webhooks {
			if strings.HasSuffix(w.Name, ".metallb.io") || strings.Contains(w.Name, ".metallb.") {
				hook = c.webhooks.Items[i].Name
				f.webhooks = []string{hook}
			}
		}
	}
	f.names = []string{
		"metallb-webhook-configuration", hook,
		"helm install fairlead charts/fairlead", "helm install fairlead charts/fairlead" + v.String(),
		"daemonset metallb-speaker", "daemonset " + speaker.Name,
		"metallb-system", namespace,
	}
	if release := controller.Release; release != "" {
		f.sections = []string{"Take stock", "Replace MetalLB installed with Helm"}
		f.names = append(f.names,
			"deployment/metallb-controller", "deployment/"+controller.Name,
			"daemonset/metallb-speaker", "daemonset/"+speaker.Name,
			"selector owner=helm,name=metallb", "selector owner=helm,name="+release,
			"app.kubernetes.io/name=metallb", "app.kubernetes.io/name="+cmp.Or(controller.labels["app.kubernetes.io/name"], "metallb"),
			"release `metallb`", "release `"+release+"`",
		)
		return nil
	}
	f.sections = []string{"Take stock", "Replace MetalLB installed from manifests"}
	f.holds["chart"] = namespace != metalLBHome || len(metalLBValues(Options{}, controller, speaker, bgp)) > 0
	f.holds["manifest"] = !f.holds["chart"]
	f.names = append(f.names,
		"deployment/controller", "deployment/"+controller.Name,
		"daemonset/speaker", "daemonset/"+speaker.Name,
		"kubectl apply -f deploy/metallb.yaml", manifest("deploy/metallb.yaml", o.Image),
	)
	return nil
}

// metalLBObjects counts MetalLB's objects.
func (f *finding) metalLBObjects(ctx context.Context, c *cluster) error {
	pools, err := c.objectsOf(ctx, metallb.PoolKind)
	if err != nil {
		return err
	}
	advertisements, err := c.objectsOf(ctx, metallb.AdvertisementKind)
	if err != nil {
		return err
	}
	f.objects = append(f.objects, pools, advertisements)
	seen := map[string]bool{}
	for _, kind := range metallb.BGPKinds() {
		found, err := c.objectsOf(ctx, kind.GroupVersionKind)
		if err != nil {
			return err
		}
		// Peers are there in each version that is served.
		if len(found.Names) > 0 && !seen[kind.Kind] {
			f.objects, seen[kind.Kind] = append(f.objects, found), true
		}
	}
	return nil
}

// metalLBValues make Fairlead's chart serve the same Services from the same nodes.
func metalLBValues(o Options, controller, speaker *Workload, bgp *metalLBBGP) (v values) {
	v.image(o.Image)
	class, _ := controller.flag("lb-class")
	if class != "" {
		v.set("loadBalancerClass", class)
	} else if controller.Namespace != metalLBHome {
		v.set("metallb.namespace", controller.Namespace)
	}
	if bgp.needsSecrets() {
		v.set("metallb.peerSecrets", "true")
	}
	if ignore, _ := speaker.flag("ignore-exclude-lb"); ignore == "true" {
		v.setJSON("agent.extraArgs", []string{"--ignore-exclude-lb"})
	}
	v.place(&speaker.template)
	return v
}
