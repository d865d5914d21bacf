package migrate

import (
	"context"
	"fmt"
	"strings"

	"fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/config"
	"fairlead.io/internal/prose"
)

const cloudSigmaTitle = "CloudSigma's cloud controller manager"

var cloudSigma = Source{
	Name: "cloudsigma", Title: cloudSigmaTitle, guide: "migrate-from-cloudsigma-ccm.md",
	workloads: cloudSigmaWorkloads, assess: assessCloudSigma,
}

// cloudSigmaWorkloads are the controller, which may be in another cluster, and a pod for
// each address.
func cloudSigmaWorkloads(c *cluster) (out []Workload) {
	out = c.workloads(part{component: "controller", images: []string{"cloudsigma-ccm", "cloudsigma-cloud-controller-manager", "csccm"}})
	for i := range c.deployments.Items {
		d := &c.deployments.Items[i]
		if spec := &d.Spec.Template.Spec; strings.HasPrefix(d.Name, "csccm-") && len(spec.Containers) > 0 && !isFairlead(&d.ObjectMeta, spec) && len(out) == 0 {
			out = append(out, workload("Deployment", &d.ObjectMeta, "controller", 1, spec))
		}
	}
	for i := range c.pods.Items {
		p := &c.pods.Items[i]
		if p.Labels[cloudsigma.LabelApp] == cloudsigma.PodApp && p.Labels[cloudsigma.LabelAddress] != "" && len(p.Spec.Containers) > 0 && !isFairlead(&p.ObjectMeta, &p.Spec) {
			out = append(out, workload("Pod", &p.ObjectMeta, "address "+p.Labels[cloudsigma.LabelAddress], 1, &p.Spec))
		}
	}
	return out
}

func assessCloudSigma(_ context.Context, c *cluster, o Options, f *finding) (err error) {
	if f.config, err = config.FromEnv(func(string) string { return "" }, config.CloudSigmaNodes); err != nil {
		return err
	}
	old := c.component("controller")
	cluster := ""
	if old == nil {
		f.skip(cloudSigmaTitle, "its Deployment is not in this cluster: look for it, and for its --cluster-name, in the management cluster")
	} else {
		if cluster, _ = old.flag("cluster-name"); cluster == "" {
			cluster = old.getenv("CLUSTER_NAME")
		}
		if on, given := old.flag("enable-csi-token"); given && on != "false" {
			f.refuse(cloudSigmaTitle, "it writes tokens for the CSI driver (--enable-csi-token), which Fairlead does not", "Keep the old controller for that, with --disable-lb-ip-pool, and follow the guide by hand.")
		}
	}
	f.sections = []string{"Take stock", "Migrate"}
	f.holds["unnamed"] = cluster == ""
	f.each["pod"] = [][]string{}
	var addresses []string
	for _, w := range c.found {
		if address, is := strings.CutPrefix(w.Component, "address "); is {
			addresses = append(addresses, address)
			f.each["pod"] = append(f.each["pod"], []string{
				"--namespace kube-system lb-ip-192-0-2-10", "--namespace " + w.Namespace + " " + w.Name,
				"sh -s 192.0.2.10", "sh -s " + quote(address),
			})
		}
	}
	if len(addresses) > 0 {
		f.pass("addresses", "pods of the old controller carry %s", prose.Few(addresses))
	}
	var v values
	v.image(o.Image)
	f.names = []string{
		"helm install fairlead charts/fairlead", "helm install fairlead charts/fairlead" + v.String(),
		"--set clusterName=metal", "--set clusterName=" + quote(cluster),
	}
	if cluster == "" { // the shell refuses the commands until somebody says what it is
		f.names = append([]string{"--set clusterName=metal", "--set clusterName=${CLUSTER_NAME:?the old controller's --cluster-name}", "deployment/csccm-metal", "deployment/csccm-${CLUSTER_NAME:?the old controller's --cluster-name}"}, f.names...)
	}
	if old != nil {
		f.names = append(f.names, "kubectl scale deployment/csccm-metal --replicas=0     # in the management cluster", fmt.Sprintf("kubectl scale --namespace %s deployment/%s --replicas=0", old.Namespace, old.Name))
	}
	return nil
}
