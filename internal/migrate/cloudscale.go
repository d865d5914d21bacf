package migrate

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"fairlead.io/internal/config"
)

const cloudscaleTitle = "cloudscale's cloud controller manager"

var cloudscale = Source{
	Name: "cloudscale", Title: cloudscaleTitle, guide: "migrate-from-cloudscale-ccm.md",
	workloads: cloudscaleWorkloads, assess: assessCloudscale,
}

// cloudscaleName is that of the DaemonSet of cloudscale's manifest, in kube-system.
const cloudscaleName = "cloudscale-cloud-controller-manager"

func cloudscaleWorkloads(c *cluster) []Workload {
	return c.workloads(part{component: "controller", images: []string{cloudscaleName}, names: []string{cloudscaleName}})
}

func assessCloudscale(_ context.Context, c *cluster, o Options, f *finding) (err error) {
	old := c.component("controller")
	if len(c.found) != 1 {
		f.refuse(cloudscaleTitle, "it runs twice in this cluster", "Remove one of them first.")
		return nil
	}
	if f.config, err = config.FromEnv(func(string) string { return "" }, config.CloudscaleNodes); err != nil {
		return err
	}
	if old.Namespace != kubeVIPHome {
		f.refuse(cloudscaleTitle, fmt.Sprintf("%s is not in kube-system, whose Lease and Secret Fairlead uses", old.name()), "Follow the guide by hand.")
		return nil
	}
	token := ""
	for _, e := range old.template.Containers[0].Env {
		if e.Name == "CLOUDSCALE_ACCESS_TOKEN" && e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			token = e.ValueFrom.SecretKeyRef.Name + " " + e.ValueFrom.SecretKeyRef.Key
		}
	}
	if token != "cloudscale access-token" {
		f.refuse(cloudscaleTitle, "its access token is not from key access-token of Secret kube-system/cloudscale, where Fairlead reads it", "Create that Secret, and let the old controller use it.")
	}
	var selects string
	for i := range c.daemonSets.Items {
		if d := &c.daemonSets.Items[i]; d.Name == old.Name && d.Namespace == old.Namespace && d.Spec.Selector != nil {
			if maps.Equal(d.Spec.Selector.MatchLabels, map[string]string{"k8s-app": cloudscaleName}) {
				selects = "the same pods"
			}
		}
	}
	same := old.Kind == "DaemonSet" && old.Name == cloudscaleName && selects != "" && old.Release == ""
	f.sections = []string{"Take stock", "Migrate"}
	f.holds["manifest"], f.holds["chart"] = same, !same
	var v values
	v.image(o.Image)
	roles := ""
	for _, r := range c.rights() {
		if kind, name, _ := strings.Cut(r, " "); kind == "clusterrole" || kind == "clusterrolebinding" {
			roles += " " + kind + "/" + quote(name)
		}
	}
	f.holds["roles"] = roles != "" && !same
	kind := strings.ToLower(old.Kind)
	f.names = []string{
		"kubectl apply -f deploy/cloudscale.yaml", manifest("deploy/cloudscale.yaml", o.Image),
		"helm install fairlead charts/fairlead", "helm install fairlead charts/fairlead" + v.String(),
		"delete --namespace kube-system daemonset/cloudscale-cloud-controller-manager serviceaccount/cloud-controller-manager", "delete --namespace kube-system " + kind + "/" + old.Name + " serviceaccount/" + old.Account,
		"delete clusterrole/system:cloud-controller-manager clusterrolebinding/system:cloud-controller-manager", "delete" + roles,
	}
	return nil
}
