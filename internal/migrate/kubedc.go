package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/config"
	"fairlead.io/internal/prose"
	"fairlead.io/internal/snapshot"
)

const kubeDCTitle = "kube-dc-manager"

var kubeDC = Source{
	Name: "kube-dc", Title: kubeDCTitle, guide: "migrate-from-kube-dc.md",
	workloads: kubeDCWorkloads, assess: assessKubeDC,
}

// Where kube-ovn has OVN's northbound database.
const (
	ovnHome     = "kube-system"
	ovnService  = "ovn-nb"
	ovnCentral  = "ovn-central"
	ovnEndpoint = ovnService + "." + ovnHome + ".svc:6641"
)

// byHand is the advice if the guide's commands do not fit.
const byHand = "Follow the guide by hand: docs/guides/migrate-from-kube-dc.md#replace-it."

func kubeDCWorkloads(c *cluster) []Workload {
	return c.workloads(part{component: "manager", images: []string{kubeDCTitle}, names: []string{kubeDCTitle}})
}

func assessKubeDC(ctx context.Context, c *cluster, o Options, f *finding) error {
	manager := c.component("manager")
	if len(c.found) != 1 || manager.Kind != "Deployment" {
		var names []string
		for _, w := range c.found {
			names = append(names, w.name())
		}
		f.refuse(kubeDCTitle, fmt.Sprintf("there are %s; the guide is for one Deployment", prose.And(names)), byHand)
		return nil
	}
	beside, err := readBeside(ctx, c, o)
	if err != nil {
		return err
	}
	if beside.problem != "" {
		f.refuse("Fairlead", beside.problem, byHand)
	}
	if f.config, err = config.Parse([]byte(beside.configuration())); err != nil {
		return err
	}
	f.services = kubeDCServices
	for _, kind := range []string{"EIp", "FIp", "Project"} {
		found, err := c.objectsOf(ctx, api.GroupVersion.WithKind(kind))
		if err != nil {
			return err
		}
		f.objects = append(f.objects, found)
	}
	tls, err := f.northbound(ctx, c)
	if err != nil {
		return err
	}
	f.sections = []string{"Take stock", "Replace it"}
	f.holds["fresh"], f.holds["alongside"], f.holds["tls"] = beside.release == "", beside.release != "", tls
	var image, more values
	image.image(o.Image)
	if tls {
		more.set("ovn.northbound", "{ssl:"+ovnEndpoint+"}")
	}
	f.names = []string{
		"scale --namespace kube-dc deployment/kube-dc-manager", "scale --namespace " + manager.Namespace + " deployment/" + manager.Name,
		" \\\n  --set image.repository=registry.example/fairlead --set image.tag=0.1.0", image.String(),
		"--set ovn.enabled=true", "--set ovn.enabled=true" + more.String(),
	}
	if beside.release != "" {
		f.names = append(f.names,
			"helm upgrade --install fairlead charts/fairlead --namespace kube-system", "helm upgrade --install "+beside.release+" charts/fairlead --namespace "+beside.namespace,
			"'classes[0].name=,classes[0].backend=ovn,classes[1].name=fairlead.io/ovn,classes[1].backend=ovn'", quote(beside.values()),
		)
	}
	return nil
}

// beside is the Fairlead that serves a class alongside kube-dc-manager.
type beside struct {
	release, namespace string
	classes            []string
	// problem is why the commands of the guide do not fit.
	problem string
}

// readBeside finds out whether Fairlead runs already, and what it serves.
func readBeside(ctx context.Context, c *cluster, o Options) (b beside, err error) {
	s, err := snapshot.Read(ctx, snapshot.Options{REST: o.REST})
	if err != nil || len(s.Install.Controllers) == 0 {
		return b, err
	}
	pod := &s.Install.Controllers[0]
	b.namespace = pod.Namespace
	for i := range c.deployments.Items {
		d := &c.deployments.Items[i]
		if d.Namespace == pod.Namespace && d.Spec.Selector != nil && selects(d.Spec.Selector.MatchLabels, pod.Labels) {
			b.release = release(&d.ObjectMeta)
		}
	}
	for _, class := range s.Config.Classes {
		if class.Backend != config.OVN || len(class.Pools) > 0 {
			b.problem = fmt.Sprintf("Fairlead runs already (pod %s/%s), and serves class %q with backend %q", pod.Namespace, pod.Name, class.Name, class.Backend)
			return b, nil
		}
		if class.Name != "" {
			b.classes = append(b.classes, class.Name)
		}
	}
	if b.release == "" {
		b.problem = fmt.Sprintf("Fairlead runs already (pod %s/%s), and was not installed with Helm", pod.Namespace, pod.Name)
	}
	return b, nil
}

// selects says whether a selector selects labels.
func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

// configuration is that of Fairlead after the migration.
func (b beside) configuration() string {
	out := "apiVersion: fairlead.io/v1alpha1\nkind: Configuration\novn: {eips: serve}\nclasses:\n- {name: \"\", backend: ovn}\n"
	for _, name := range b.classes {
		out += fmt.Sprintf("- {name: %q, backend: ovn}\n", name)
	}
	return out
}

// values are the classes of that configuration, for Helm.
func (b beside) values() string {
	out := []string{"classes[0].name=,classes[0].backend=ovn"}
	for i, name := range b.classes {
		out = append(out, fmt.Sprintf("classes[%d].name=%s,classes[%d].backend=ovn", i+1, name, i+1))
	}
	return strings.Join(out, ",")
}

// northbound finds OVN's database where kube-ovn has it, and says whether it needs TLS.
func (f *finding) northbound(ctx context.Context, c *cluster) (tls bool, err error) {
	err = c.client.Get(ctx, client.ObjectKey{Namespace: ovnHome, Name: ovnService}, &corev1.Service{})
	switch {
	case apierrors.IsNotFound(err):
		f.refuse("OVN", fmt.Sprintf("there is no Service %s/%s, where kube-ovn has the northbound database", ovnHome, ovnService), byHand+" Set ovn.northbound.")
		return false, nil
	case apierrors.IsForbidden(err):
		c.unknown = append(c.unknown, fmt.Sprintf("cannot read Service %s/%s", ovnHome, ovnService))
		return false, nil
	case err != nil:
		return false, err
	}
	for i := range c.deployments.Items {
		d := &c.deployments.Items[i]
		if d.Namespace != ovnHome || d.Name != ovnCentral {
			continue
		}
		for _, container := range d.Spec.Template.Spec.Containers {
			tls = tls || slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "ENABLE_SSL" && e.Value == "true" })
		}
	}
	how := "tcp:"
	if tls {
		how = "ssl:"
	}
	f.pass("OVN", "northbound database %s%s", how, ovnEndpoint)
	f.skip("OVN", "the rows of the database were not read: the dry run compares them")
	return tls, nil
}

// kubeDCServices refuses Services that ask for more than an address, and says what changes.
func kubeDCServices(s *snapshot.Snapshot, f *finding) {
	for i := range s.Survey.Services {
		of := &s.Survey.Services[i]
		if of.Class == nil || of.Ignored != "" {
			continue
		}
		if routes := gatewayRoutes(of.Annotations); len(routes) > 0 {
			f.refuse("Service "+of.Key.String(), kubedc.Reasons.With(kubedc.AnnotationIgnored, prose.And(routes)).Text,
				"Keep kube-dc-manager for it, and run Fairlead alongside: docs/guides/migrate-from-kube-dc.md#alongside. Or remove the annotations.")
		}
		if len(of.SourceRanges) > 0 {
			f.skip("Service "+of.Key.String(), "Fairlead enforces loadBalancerSourceRanges, which kube-dc ignores: check that all clients are in %s", prose.Few(of.SourceRanges))
		}
	}
	released := s.ReleasedEIps()
	for _, name := range sortedKeys(released) {
		f.skip("EIp "+name, "no Service uses it: Fairlead deletes it and releases %s, unless a load balancer in OVN has the address", released[name])
	}
	for i := range f.objects {
		o := &f.objects[i]
		switch o.Kind {
		case "EIp": // others stay
			o.Names = slices.DeleteFunc(o.Names, func(name string) bool { _, goes := released[name]; return goes })
		case "FIp", "Project":
			if len(o.Names) > 0 {
				f.skip("objects", "%s: while %s is stopped, nobody creates or changes them; existing ones work on", o, kubeDCTitle)
			}
		}
	}
}

// gatewayRoutes are the annotations that ask for a route of a gateway.
func gatewayRoutes(annotations map[string]string) (out []string) {
	for _, key := range sortedKeys(annotations) {
		if kubedc.Unserved(key) && !strings.HasSuffix(key, "/autodelete") && !strings.HasSuffix(key, "-status") {
			out = append(out, key)
		}
	}
	return out
}
