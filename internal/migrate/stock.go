package migrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/snapshot"
)

// Stock is what a system has in a cluster.
type Stock struct {
	// Workloads that run of it.
	Workloads []Workload `json:"workloads,omitempty"`
	// Objects of its kinds.
	Objects []Objects `json:"objects,omitempty"`
	// Webhooks that check these.
	Webhooks []string `json:"webhooks,omitempty"`
	// Rights are the accounts of its pods, and the roles that are bound to them.
	Rights []string `json:"rights,omitempty"`
	// Classes of all Services of type LoadBalancer.
	Classes []ClassCount `json:"classes,omitempty"`
	// Services that it serves, with their addresses.
	Services []Held `json:"services,omitempty"`
	// Routers with which its nodes have BGP sessions.
	Routers []Router `json:"routers,omitempty"`
}

// Workload is a Deployment, a DaemonSet, or pods that have neither.
type Workload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Component is what it does.
	Component string   `json:"component"`
	Image     string   `json:"image"`
	Replicas  int      `json:"replicas"`
	Arguments []string `json:"arguments,omitempty"`
	Variables []string `json:"variables,omitempty"`
	// Release of Helm that it belongs to.
	Release string `json:"release,omitempty"`
	// Owner is the object that makes it.
	Owner   string `json:"owner,omitempty"`
	Account string `json:"account,omitempty"`

	template corev1.PodSpec
	labels   map[string]string
}

func (w Workload) name() string { return strings.ToLower(w.Kind) + " " + w.Namespace + "/" + w.Name }

func (w Workload) String() string {
	out := w.name() + ", image " + w.Image
	if w.Release != "" {
		out += ", of Helm release " + w.Release
	}
	return out
}

// flag returns the value of a flag of its first container.
func (w Workload) flag(name string) (string, bool) {
	for i, arg := range w.Arguments {
		value, is := strings.CutPrefix(strings.TrimLeft(arg, "-"), name)
		switch {
		case !is || !strings.HasPrefix(arg, "-"):
		case strings.HasPrefix(value, "="):
			return value[1:], true
		case value == "" && i+1 < len(w.Arguments) && !strings.HasPrefix(w.Arguments[i+1], "-"):
			return w.Arguments[i+1], true
		case value == "":
			return "true", true
		}
	}
	return "", false
}

// getenv returns a variable of its first container.
func (w Workload) getenv(name string) string {
	for _, v := range w.Variables {
		if value, is := strings.CutPrefix(v, name+"="); is {
			return value
		}
	}
	return ""
}

// Objects of one kind.
type Objects struct {
	Kind string `json:"kind"`
	// Version is the group and version of the kind.
	Version string   `json:"version"`
	Names   []string `json:"names"`
}

func (o Objects) String() string { return fmt.Sprintf("%d %s", len(o.Names), o.Kind) }

// ClassCount counts Services of a class; an empty one is none.
type ClassCount struct {
	Class    string `json:"class"`
	Services int    `json:"services"`
}

// Held are the addresses of a Service.
type Held struct {
	Service   string   `json:"service"`
	Class     string   `json:"class,omitempty"`
	Addresses []string `json:"addresses"`
}

// addressesOf returns what a Service publishes, sorted.
func addressesOf(s *lb.Service) (out []string) {
	for _, in := range s.Ingress {
		if name := cmp.Or(in.IP, in.Hostname); name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

type webhookConfiguration = admissionregistrationv1.ValidatingWebhookConfiguration

// cluster is what was read of one.
type cluster struct {
	client  client.Client
	unknown []string
	found   []Workload // of the system

	pods        corev1.PodList
	deployments appsv1.DeploymentList
	daemonSets  appsv1.DaemonSetList
	webhooks    admissionregistrationv1.ValidatingWebhookConfigurationList

	roles struct {
		bindings        rbacv1.RoleBindingList
		clusterBindings rbacv1.ClusterRoleBindingList
	}
}

// readCluster reads what all Sources need. What may not be read is unknown.
func readCluster(ctx context.Context, config *rest.Config) (*cluster, error) {
	k, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	c := &cluster{client: k}
	for _, l := range []struct {
		resource string
		list     client.ObjectList
	}{
		{"pods", &c.pods}, {"deployments", &c.deployments}, {"daemonsets", &c.daemonSets}, {"validatingwebhookconfigurations", &c.webhooks},
		{"rolebindings", &c.roles.bindings}, {"clusterrolebindings", &c.roles.clusterBindings},
	} {
		if err := c.list(ctx, l.resource, l.list); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) list(ctx context.Context, resource string, list client.ObjectList) error {
	switch err := c.client.List(ctx, list); {
	case err == nil || meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
	case apierrors.IsForbidden(err):
		c.unknown = append(c.unknown, "cannot list "+resource)
	default:
		return fmt.Errorf("list %s: %w", resource, err)
	}
	return nil
}

// cannot says whether one of these resources could not be listed.
func (c *cluster) cannot(resources ...string) bool {
	return slices.ContainsFunc(resources, func(r string) bool { return slices.Contains(c.unknown, "cannot list "+r) })
}

// objectsOf returns the objects of a kind. One that is not installed has none.
func (c *cluster) objectsOf(ctx context.Context, kind schema.GroupVersionKind) (Objects, error) {
	out := Objects{Kind: kind.Kind, Version: kind.GroupVersion().String()}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := c.list(ctx, "objects of kind "+kind.Kind, &list)
	for i := range list.Items {
		out.Names = append(out.Names, strings.TrimPrefix(list.Items[i].Namespace+"/"+list.Items[i].Name, "/"))
	}
	slices.Sort(out.Names)
	return out, err
}

// namesOf returns the names that objects of a kind have now.
func (c *cluster) namesOf(ctx context.Context, was Objects) ([]string, error) {
	version, err := schema.ParseGroupVersion(was.Version)
	if err != nil {
		return nil, err
	}
	is, err := c.objectsOf(ctx, version.WithKind(was.Kind))
	return is.Names, err
}

// configMap reads one; nil if it is not there.
func (c *cluster) configMap(ctx context.Context, namespace, name string) *corev1.ConfigMap {
	var cm corev1.ConfigMap
	switch err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &cm); {
	case err == nil:
		return &cm
	case !apierrors.IsNotFound(err):
		c.unknown = append(c.unknown, fmt.Sprintf("cannot read ConfigMap %s/%s", namespace, name))
	}
	return nil
}

// part says what a workload is, by its image and its name.
type part struct {
	component string
	// images are ends of the name of the image, without tag; names are names of the
	// workload.
	images, names []string
}

// is says whether a workload is of the part.
func (p part) is(name, image string) bool {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		image = image[:i]
	}
	return slices.Contains(p.names, name) || slices.ContainsFunc(p.images, func(end string) bool { return image == end || strings.HasSuffix(image, "/"+end) })
}

// workloads returns what runs of the parts: Deployments, DaemonSets, and pods without
// either, such as static ones.
func (c *cluster) workloads(parts ...part) (out []Workload) {
	add := func(kind string, m *metav1.ObjectMeta, replicas int, spec *corev1.PodSpec) {
		if len(spec.Containers) == 0 || isFairlead(m, spec) {
			return
		}
		for _, p := range parts {
			if p.is(m.Name, spec.Containers[0].Image) {
				out = append(out, workload(kind, m, p.component, replicas, spec))
				return
			}
		}
	}
	for i := range c.deployments.Items {
		d := &c.deployments.Items[i]
		add("Deployment", &d.ObjectMeta, int(ptr.Deref(d.Spec.Replicas, 1)), &d.Spec.Template.Spec)
	}
	for i := range c.daemonSets.Items {
		d := &c.daemonSets.Items[i]
		add("DaemonSet", &d.ObjectMeta, int(d.Status.DesiredNumberScheduled), &d.Spec.Template.Spec)
	}
	for i := range c.pods.Items {
		p := &c.pods.Items[i]
		owner := metav1.GetControllerOf(p)
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && (owner == nil || owner.Kind == "Node") {
			add("Pod", &p.ObjectMeta, 1, &p.Spec)
		}
	}
	return out
}

// isFairlead says whether a workload is ours, under whatever name.
func isFairlead(m *metav1.ObjectMeta, spec *corev1.PodSpec) bool {
	c := &spec.Containers[0]
	return m.Labels["app.kubernetes.io/name"] == "fairlead" || len(c.Command) > 0 && strings.HasSuffix(c.Command[0], "/fairlead")
}

func workload(kind string, m *metav1.ObjectMeta, component string, replicas int, spec *corev1.PodSpec) Workload {
	c := snapshot.WithoutSecrets(spec.Containers[0])
	w := Workload{
		Kind: kind, Namespace: m.Namespace, Name: m.Name, Component: component, Image: c.Image, Replicas: replicas,
		Arguments: slices.Concat(c.Command, c.Args), Release: release(m), Account: cmp.Or(spec.ServiceAccountName, "default"), template: *spec, labels: m.Labels,
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			w.Variables = append(w.Variables, e.Name+"="+e.Value)
		}
	}
	if owner := metav1.GetControllerOfNoCopy(m); owner != nil && kind != "Pod" {
		w.Owner = owner.Kind + " " + owner.Name
	}
	return w
}

// release returns the release of Helm that an object belongs to. Only names of releases
// count: the answer is part of commands.
func release(m *metav1.ObjectMeta) string {
	name := m.Annotations["meta.helm.sh/release-name"]
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ""
	}
	return name
}

// component returns the first workload that does this.
func (c *cluster) component(name string) *Workload {
	for i := range c.found {
		if c.found[i].Component == name {
			return &c.found[i]
		}
	}
	return nil
}

// rights returns the accounts of the workloads, the roles that are bound to them, and the
// bindings.
func (c *cluster) rights() []string {
	accounts := map[rbacv1.Subject]bool{}
	out := map[string]bool{}
	for _, w := range c.found {
		if w.Account != "default" {
			accounts[rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: w.Namespace, Name: w.Account}] = true
			out["serviceaccount "+w.Namespace+"/"+w.Account] = true
		}
	}
	bound := func(subjects []rbacv1.Subject, namespace string) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			s.APIGroup, s.Namespace = "", cmp.Or(s.Namespace, namespace)
			return accounts[s]
		})
	}
	for _, b := range c.roles.bindings.Items {
		if bound(b.Subjects, b.Namespace) {
			out["rolebinding "+b.Namespace+"/"+b.Name] = true
			if b.RoleRef.Kind == "Role" {
				out["role "+b.Namespace+"/"+b.RoleRef.Name] = true
			}
		}
	}
	for _, b := range c.roles.clusterBindings.Items {
		if bound(b.Subjects, "") {
			out["clusterrolebinding "+b.Name], out["clusterrole "+b.RoleRef.Name] = true, true
		}
	}
	return sortedKeys(out)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
