package tool

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"fairlead.io/charts"
	"fairlead.io/test/kit/rig"
)

// right is the right to read one resource, and the commands of asked that need it.
type right struct {
	group, resource string
	needed          string
}

// needs says whether a command reads the resource.
func (r right) needs(command string) bool {
	first, _, _ := strings.Cut(command, " ")
	return slices.Contains(strings.Fields(r.needed), first)
}

// Commands that read almost everything, and what all do that are asked in a cluster where
// nothing is to be replaced.
const (
	askedAlways = "status why ip plan bundle"
	askedAll    = askedAlways + " check"
)

// rights are what the commands read. Without one of them, those that need it do not know
// everything.
var rights = []right{
	{"", "services", askedAll}, {"", "namespaces", askedAll}, {"", "pods", askedAll},
	{"", "nodes", askedAlways}, {"", "configmaps", askedAlways}, {"coordination.k8s.io", "leases", askedAlways}, {"networking.k8s.io", "servicecidrs", askedAlways},
	{"fairlead.io", "pools", askedAlways}, {"fairlead.io", "agents", askedAlways}, {"metallb.io", "ipaddresspools", askedAlways}, {"metallb.io", "l2advertisements", askedAlways},
	{"discovery.k8s.io", "endpointslices", "why ip plan bundle"},
	{"metallb.io", "bgppeers", "why plan"}, {"metallb.io", "bgpadvertisements", "why plan"}, {"metallb.io", "bfdprofiles", "why plan"}, {"metallb.io", "communities", "why plan"},
	{"", "events", "why"}, {"", "pods/log", "bundle"},
	{"apps", "deployments", "migrate"}, {"apps", "daemonsets", "migrate"}, {"admissionregistration.k8s.io", "validatingwebhookconfigurations", "migrate"},
	{"rbac.authorization.k8s.io", "rolebindings", "migrate"}, {"rbac.authorization.k8s.io", "clusterrolebindings", "migrate"},
}

// grantAllBut returns a kubeconfig of somebody who may read everything but one resource.
func grantAllBut(t *testing.T, denied right) string {
	t.Helper()
	user := "no-" + strings.ReplaceAll(denied.resource, "/", "-")
	var rules []rbacv1.PolicyRule
	for _, r := range rights {
		if r != denied {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.resource}, Verbs: []string{"get", "list"}})
		}
	}
	rig.Grant(t, theRig.Kube, user, rules...)
	rig.Eventually(t, "rights of "+user+" count", func() error {
		one := rules[0] // all are of one role
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Group: one.APIGroups[0], Resource: one.Resources[0]}}}
		if err := theRig.Client.Create(t.Context(), review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return fmt.Errorf("may not read %s", one.Resources[0])
		}
		return nil
	})
	return kubeconfigOf(t, user)
}

// marked are the lines of an answer that claim something: those with a tick or a cross.
func marked(text string) (out []string) {
	for line := range strings.Lines(durations.ReplaceAllString(text, "for TIME")) {
		if strings.HasPrefix(line, "✓") || strings.HasPrefix(line, "✗") {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}

// untrue are the claims of an answer that the answer with all rights does not have. One may
// say less.
func untrue(got, all string) (out []string) {
	known := marked(all)
	for _, line := range marked(got) {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.HasPrefix(k, line) }) {
			out = append(out, line)
		}
	}
	return out
}

// Without a right, no command claims anything that rests on what it could not read, and none
// says that all is well: each resource, each command. In a cluster where all is well, nothing
// is wrong either.
func TestDeniedRights(t *testing.T) {
	theRig.InstallMetalLB(t, charts.MetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	w := newWorld(t)
	w.install("n1", "n2")
	w.pool("edge", "192.0.2.16/30")
	w.service("web", nil, "n1", "n2")
	w.announced("web")
	rig.Eventually(t, "all is well", func() error {
		for _, command := range []string{"status", "why shop/web"} {
			if got, code := run(t, strings.Fields(command)...); code != 0 {
				return fmt.Errorf("%s: exit %d:\n%s", command, code, got)
			}
		}
		return nil
	})
	commands := []string{"status", "why shop/web", "ip", "plan --drain n1", "check"}
	ask := func(t *testing.T, kubeconfig, command string) (string, int) { // a bundle never replaces a file
		return runWith(t, kubeconfig, strings.Fields(strings.Replace(command, "FILE", filepath.Join(t.TempDir(), "bundle"), 1))...)
	}
	for _, denied := range rights {
		kubeconfig := grantAllBut(t, denied)
		asked := commands
		if denied.resource == "pods/log" || denied.resource == "pools" { // each bundle waits seconds for logs, which nobody has here
			asked = append(slices.Clone(commands), "bundle --file FILE")
		}
		for _, command := range asked {
			t.Run(denied.resource+"/"+command, func(t *testing.T) {
				needs := denied.needs(command)
				all, want := ask(t, theRig.API.Kubeconfig, command)
				got, code := ask(t, kubeconfig, command)
				if needs {
					want = 2
				}
				if wrong := untrue(got, all); code != want || len(wrong) > 0 || strings.Contains(got, "✗") || needs && !strings.Contains(got, "unknown: ") {
					t.Errorf("exit %d, want %d; claims without knowing: %q:\n%s\nwith all rights:\n%s", code, want, wrong, got, all)
				}
			})
		}
	}
}

// The same in a cluster that is not as the defaults are: the configuration serves another
// class, nobody leads, nothing is written on Services, and MetalLB runs. What is wrong there
// may be told if it is known.
func TestDeniedRightsWhereMuchIsWrong(t *testing.T) {
	theRig.InstallMetalLB(t, charts.MetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	w := newWorld(t)
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: fairlead, namespace: %[1]s}
data: {fairlead.yaml: "{apiVersion: fairlead.io/v1alpha1, kind: Configuration, clusterName: test, classes: [{name: example.com/lb, backend: announce}]}"}
---
apiVersion: v1
kind: Pod
metadata: {name: fairlead-controller-x7k, namespace: %[1]s, labels: {app.kubernetes.io/name: fairlead, app.kubernetes.io/component: controller}}
spec:
  containers: [{name: controller, image: fairlead, args: [controller, --config=/etc/fairlead/fairlead.yaml], volumeMounts: [{name: configuration, mountPath: /etc/fairlead}]}]
  volumes: [{name: configuration, configMap: {name: fairlead}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller, namespace: metallb-system}
spec: {selector: {matchLabels: {app: metallb}}, template: {metadata: {labels: {app: metallb}}, spec: {containers: [{name: controller, image: "quay.io/metallb/controller:v0.15.2"}]}}}
---
{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: lan, namespace: metallb-system}, spec: {addresses: [192.0.2.64/30]}}
---
{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: edge}, spec: {addresses: [192.0.2.16/30]}}
`, namespace))
	w.node("n1", netip.MustParseAddr("192.0.2.201"))
	w.service("web", nil, "n1")
	w.service("other", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/lb") }, "n1")
	w.service("served", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/lb") }, "n1")
	served := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "served"}}
	if err := theRig.Client.Status().Patch(t.Context(), served, mergePatch(t, map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.16"}}}}})); err != nil {
		t.Fatal(err)
	}
	commands := []string{"status", "why shop/web", "why shop/other", "why shop/served", "why 192.0.2.65", "ip", "plan --remove edge", "check", "migrate --from metallb"}
	// True here, whether an answer with all rights comes to it or not.
	const known = "\n✗ controller: No controller leads: nothing is decided.\n✗ controller: Pod fairlead-controller-x7k is not ready.\n"
	for _, denied := range rights {
		kubeconfig := grantAllBut(t, denied)
		for _, command := range commands {
			t.Run(denied.resource+"/"+command, func(t *testing.T) {
				// Nobody has the address, so there is nothing that events could be about.
				needs := denied.needs(command) && (denied.resource != "events" || command != "why 192.0.2.65")
				all, _ := run(t, strings.Fields(command)...)
				all += known
				got, code := runWith(t, kubeconfig, strings.Fields(command)...)
				if wrong := untrue(got, all); len(wrong) > 0 || needs && (code == 0 || !strings.Contains(got, "unknown: ")) {
					t.Errorf("exit %d; claims without knowing: %q:\n%s\nwith all rights:\n%s", code, wrong, got, all)
				}
			})
		}
	}
}

// Who may read nothing learns that nothing is known.
func TestNoRights(t *testing.T) {
	newWorld(t)
	rig.Grant(t, theRig.Kube, "nobody")
	kubeconfig := kubeconfigOf(t, "nobody")
	for command, want := range map[string]string{
		"status":                 "Pools       unknown: cannot list services\nServices    unknown: cannot list services\n",
		"why shop/web":           "shop/web  UNKNOWN\n? Service: unknown: cannot list services\n",
		"plan --drain n1":        "fairlead: unknown: cannot list services: nothing can be predicted\n",
		"migrate --from metallb": "? MetalLB: unknown: cannot list all of deployments, daemonsets and pods\n",
		"check":                  "? other load balancers: unknown: cannot list pods\n",
	} {
		rig.Eventually(t, command+" without rights", func() error {
			if got, code := runWith(t, kubeconfig, strings.Fields(command)...); code != 2 || !strings.Contains(got, want) || strings.Contains(got, "✗") {
				return fmt.Errorf("exit %d, want 2 and %q:\n%s", code, want, got)
			}
			return nil
		})
	}
}

// kubeconfigOf is a kubeconfig with which somebody is that user.
func kubeconfigOf(t *testing.T, user string) string {
	t.Helper()
	c, err := clientcmd.LoadFromFile(theRig.API.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range c.AuthInfos {
		a.Impersonate = user
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}
