package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

const chart = "charts/fairlead"

// helmBinary is where Go keeps Helm. To ask Go each time takes longer than to run it.
var helmBinary = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "tool", "-n", "-modfile=tools.mod", "helm")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0") // as make builds it
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
})

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := helmBinary()
	if err != nil {
		t.Fatalf("build helm: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestChartLints(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", chart); err != nil {
		t.Errorf("helm lint: %v\n%s", err, out)
	}
}

func TestChartRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, value := range []string{
		"contoller.replicas=3", // a slip of the pen
		"controller.kind=StatefulSet",
		"controller.logLevel=loud",
		"controller.healthPort=70000",
		"controller.extraArgs={workers=2}",
		"agent.gossipPort=79470",
		"agent.enabled=sometimes",
		"image.repository=",
		"classes[0].backend=announce",
		"metrics.serviceMonitor.interval=often",
		"metrics.readers[0].name=prometheus",
		"metrics.prometheusRule.docsURL=docs",
		"controller.podLabels.tier=1",
		"agent.extraEnv[0].value=x",
		"agent.topologySpreadConstraints[0].maxSkew=1", // each node has one
		"imagePullSecrets[0].secret=x",
		"metallb.namespace=Metal",
		"metallb.crds=maybe",
		"loadBalancerClass[0]=metallb",
		"cloudscale.enabled=perhaps",
		"cloudscale.token=secret", // it belongs into a Secret
		"cloudscale.apiURL=api.cloudscale.ch",
		"cloudscale.accessTokenSecret.name=",
		"cloudsigma.enabled=perhaps",
		"cloudsigma.password=secret", // it belongs into a Secret
		"cloudsigma.region=zrh.cloudsigma.com",
		"cloudsigma.apiEndpoint=zrh.cloudsigma.com",
		"cloudsigma.credentials=oauth",
		"cloudsigma.secret=Account",
		"cloudsigma.userEmail=user",
		"cloudsigma.interface=ens3/4",
		"cloudsigma.pods=few",
		"cloudsigma.tenantKubeconfig.key=",
		"kubeVip.provider=sometimes",
		"kubeVip.namespace=Kube",
		"kubeVip.env[0].value=eth0",
		"classes[0].name=,classes[0].backend=kubevip",
		"ovn.enabled=perhaps",
		"ovn.northbound={tpc:db:6641}",
		"ovn.northbound={unix:/run/ovn/ovnnb_db.sock}", // a pod does not have it
		"ovn.northbound={ssl:db}",
		"ovn.key=secret", // it belongs into a Secret
		"ovn.tlsSecret=",
		"ovn.eips=both",
	} {
		if out, err := helm(t, "template", chart, "--set", value); err == nil || !strings.Contains(out, "schema") {
			t.Errorf("--set %s: want an error of the schema, got %v\n%.300s", value, err, out)
		}
	}
}

// What does not go together is refused, with a sentence that says why.
func TestChartRefusesContradictions(t *testing.T) {
	for values, want := range map[string]string{
		"loadBalancerClass=metallb,classes[0].name=edge":                                "loadBalancerClass and classes are both set",
		"loadBalancerClass=metallb,cloudscale.enabled=true":                             "loadBalancerClass and cloudscale.enabled are both set",
		"classes[0].name=cloud,classes[0].backend=cloudscale":                           "cloudscale.enabled is not set",
		"cloudscale.enabled=true,cloudscale.names=true":                                 "cloudscale.names is set",
		"cloudscale.enabled=true,cloudscale.names=true,controller.kind=DaemonSet":       "in the namespace kube-system",
		"cloudsigma.enabled=true,cloudscale.enabled=true":                               "cloudscale.enabled and cloudsigma.enabled are both set",
		"cloudsigma.enabled=true,metallb.labels=true":                                   "metallb.labels and cloudsigma.enabled are both set",
		"cloudsigma.enabled=true,loadBalancerClass=x":                                   "loadBalancerClass and cloudsigma.enabled are both set",
		"cloudsigma.enabled=true,kubeVip.provider=true":                                 "classes or cloudsigma.enabled",
		"cloudsigma.enabled=true,classes[0].name=,classes[0].backend=cloudscale":        "backend cloudscale, but cloudscale.enabled is not set",
		"cloudsigma.enabled=true,cloudsigma.credentials=impersonation":                  "cloudsigma.userEmail is not set",
		"cloudsigma.enabled=true,cloudsigma.pods=true,classes[0].name=edge":             "Remove cloudsigma.pods",
		"cloudsigma.enabled=true,cloudsigma.tenantKubeconfig.secret=kubeconfig":         "clusterName is not",
		"kubeVip.provider=true,classes[0].name=edge":                                    "kubeVip.provider is set, and so is classes",
		"kubeVip.provider=true,cloudscale.enabled=true":                                 "kubeVip.provider is set, and so is classes or cloudscale.enabled",
		"kubeVip.provider=true,kubeVip.names=true":                                      "in the namespace kube-system, with kubeVip.provider",
		"ovn.enabled=true,cloudsigma.enabled=true":                                      "ovn.enabled and cloudsigma.enabled are both set",
		"ovn.enabled=true,kubeVip.provider=true":                                        "kubeVip.provider is set, and so is classes or ovn.enabled",
		"ovn.enabled=true,classes[0].name=edge":                                         "no class has the backend ovn",
		"classes[0].name=,classes[0].backend=ovn":                                       "backend ovn, but ovn.enabled is not set",
		"ovn.enabled=true,loadBalancerClass=x,classes[0].name=x,classes[0].backend=ovn": "but it is loadBalancerClass, too",
		"kubeVip.names=true": "with kubeVip.provider",
		"metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true":                      "read everything twice",
		"metrics.prometheusRule.enabled=true,metrics.prometheusRule.disabled={FairleadLeaderless}": "there is no such alert",
		"networkPolicy.enabled=true,controller.kind=DaemonSet":                                     "it uses the nodes' network",
		"controller.podLabels.app\\.kubernetes\\.io/name=mine":                                     "which the chart sets itself",
		"agent.podAnnotations.checksum/configuration=mine":                                         "which the chart sets itself",
		"kubeVip.provider=true,kubeVip.env[0].name=vip_interface":                                  "nothing is announced here",
		"loadBalancerClass=x,kubeVip.env[0].name=lb_class_only":                                    "kubeVip.env has lb_class_only",
	} {
		out, err := helm(t, "template", chart, "--set", values)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("--set %s: want an error that says %q, got %v\n%.300s", values, want, err, out)
		}
	}
}

// The default image is one that nobody can register a name for: its pods are root on
// the nodes. With an image of one's own, it is pulled.
func TestImageIsNobodyElses(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for values, want := range map[string]string{
		"":              "image: fairlead.invalid/fairlead:0.1.0\n        imagePullPolicy: Never\n",
		"image.tag=dev": "image: fairlead.invalid/fairlead:dev\n        imagePullPolicy: Never\n",
		"image.repository=registry.example/fairlead":                                                           "image: registry.example/fairlead:0.1.0\n        imagePullPolicy: IfNotPresent\n",
		"image.repository=registry.example/f,image.digest=" + digest:                                           "image: registry.example/f@" + digest + "\n        imagePullPolicy: IfNotPresent\n",
		"image.repository=registry.example/f,image.tag=v1,image.digest=" + digest + ",image.pullPolicy=Always": "image: registry.example/f:v1@" + digest + "\n        imagePullPolicy: Always\n",
	} {
		out, err := helm(t, "template", chart, "--set", values)
		if err != nil {
			t.Errorf("--set %s: %v\n%.300s", values, err, out)
			continue
		}
		hint := strings.Count(out, "fairlead.io/image: \"No registry has this image.")
		if local := !strings.Contains(values, "repository"); strings.Count(out, want) != 2 || (hint == 2) != local || (hint == 0) == local {
			t.Errorf("--set %s: want %q for both, got %d; %d hints\n%.300s", values, want, strings.Count(out, want), hint, out)
		}
	}
}

// kubectl apply replaces another's manifest by ours only if these are the same: the
// selector of a DaemonSet or Deployment and the role of a binding cannot be changed.
// A container of another name would be a second one, and a command that is not
// said here would stay, where the other was not installed by kubectl apply.
func TestManifestsHaveTheNamesOfOthers(t *testing.T) {
	for path, test := range map[string]struct{ has, lacks []string }{
		"deploy/fairlead.yaml": {
			has:   []string{"kind: DaemonSet\nmetadata:\n  name: fairlead-agent\n", "      - name: agent\n", "app.kubernetes.io/component: agent\n"},
			lacks: []string{"component: speaker", "name: speaker", "-speaker", "app: metallb"},
		},
		"deploy/metallb.yaml": {
			has:   []string{"kind: DaemonSet\nmetadata:\n  name: fairlead-speaker\n", "      - name: speaker\n", "app: metallb\n        component: speaker\n", "app: metallb\n        component: controller\n"},
			lacks: []string{"component: agent"},
		},
		"deploy/cloudscale.yaml": {
			has: []string{
				"kind: DaemonSet\nmetadata:\n  name: cloudscale-cloud-controller-manager\n  namespace: kube-system\n",
				"    matchLabels:\n      k8s-app: cloudscale-cloud-controller-manager\n  template:",
				"      serviceAccountName: cloud-controller-manager\n",
				"  kind: ClusterRole\n  name: system:cloud-controller-manager\nsubjects:\n- kind: ServiceAccount\n  name: cloud-controller-manager\n",
				"resourceNames: [cloud-controller-manager]", "secretName: cloudscale", "key: access-token", "hostNetwork: true", "key: node.kubernetes.io/not-ready",
			},
			lacks: []string{"CustomResourceDefinition", "fairlead.io]", "metallb", "secrets]", "configmaps]"},
		},
		"deploy/cloudsigma.yaml": {
			has: []string{
				"kind: DaemonSet\nmetadata:\n  name: fairlead-agent\n  namespace: kube-system\n", "        app: cloudsigma-lb-ip\n",
				"name: cloudsigma-credentials\n", "key: region\n", "key: cluster-name\n", "key: username\n", "path: password\n",
				"--cluster-name=$(CLUSTER_NAME)\n", "hostNetwork: true", "key: node.kubernetes.io/not-ready", "resources: [endpointslices]",
				"name: agents.fairlead.io\n",
				// Of pods, it only asks which node those of another controller are on.
				"  name: fairlead-pods\n  namespace: kube-system\n", "resources: [pods]\n  verbs: [get]\n",
			},
			lacks: []string{"metallb.io]", "configmaps]", "resources: [pods]\n  verbs: [get,", "pods, ", ", pods", "pods/", "app: metallb", "privileged"},
		},
		"charts/fairlead/testdata/cloudsigmapods.yaml": {
			has: []string{
				"  name: fairlead-pods\n  namespace: kube-system\n", "resources: [pods]\n  verbs: [get, list, watch, create, delete]\n",
				"--pod-image=fairlead.invalid/fairlead:0.1.0\n", "name: CLOUDSIGMA_TOKEN_FILE\n", "resourceNames: [cloud-controller-manager]",
			},
			lacks: []string{"CustomResourceDefinition", "kind: DaemonSet", "kind: Secret\n", "fairlead.io]", "metallb", "key: username"},
		},
		"charts/fairlead/testdata/cloudsigmaoutside.yaml": {
			has: []string{
				"kind: Deployment\nmetadata:\n  name: csccm-metal\n", "--tenant-kubeconfig=/etc/tenant/admin.conf\n", "secretName: cloudsigma-impersonation\n",
				"key: oauth-url\n", "key: client-id\n", "path: client-secret\n", "automountServiceAccountToken: false\n      priorityClassName",
				"    cloudsigma:\n      pods: true\n",
			},
			lacks: []string{"CustomResourceDefinition", "Role", "kind: DaemonSet", "kind: Secret\n"},
		},
		"deploy/kube-dc.yaml": {
			has: []string{
				"kind: Deployment\nmetadata:\n  name: fairlead-controller\n  namespace: kube-system\n", "secretName: kube-ovn-tls\n", "mountPath: /etc/ovn\n",
				"    classes:\n    - backend: ovn\n      name: \"\"\n", "      eips: serve\n", "resources: [eips/status]\n  verbs: [patch]\n",
			},
			lacks: []string{"CustomResourceDefinition", "kind: DaemonSet", "fairlead.io]", "metallb", "secrets]", "configmaps]", "nodes]", "'*'", "update, "},
		},
		// MetalLB's class and OVN's are in one release, and EIps are somebody else's. Vpcs
		// are written all the same: policy routes are the Services'.
		"charts/fairlead/testdata/kubedc.yaml": {
			has:   []string{"--lb-class=metallb\n", "    - backend: ovn\n      name: \"\"\n", "- ssl:192.0.2.13:6641\n", "      eips: use\n", "secretName: ovn\n", "kind: DaemonSet", "vpcs]\n  verbs: [patch]\n"},
			lacks: []string{"eips/status", "ovn-eips]\n  verbs: [create"},
		},
		"charts/fairlead/testdata/ovn.yaml": {
			has:   []string{"      pools:\n      - native\n", "resources: [pools]\n", "resources: [endpointslices]\n  verbs: [get, list, watch]\n"},
			lacks: []string{"kind: DaemonSet", "resources: [eips]", "resources: [ovn-eips]", "resources: [services]\n  verbs: [create", "fairlead-gossip"},
		},
		"deploy/kube-vip.yaml": {
			has: []string{
				"kind: Deployment\nmetadata:\n  name: kube-vip-cloud-provider\n  namespace: kube-system\n",
				"  replicas: 1\n  selector:\n    matchLabels:\n      app: kube-vip\n      component: kube-vip-cloud-provider\n  template:",
				"      serviceAccountName: kube-vip-cloud-controller\n",
				"kind: ClusterRoleBinding\nmetadata:\n  name: system:kube-vip-cloud-controller-binding\n",
				"  kind: ClusterRole\n  name: system:kube-vip-cloud-controller-role\nsubjects:\n- kind: ServiceAccount\n  name: kube-vip-cloud-controller\n",
				"      - name: kube-vip-cloud-provider\n        image: fairlead.invalid/fairlead:", "        command: [/fairlead]\n        args:\n        - controller\n",
				"--leader-elect-resource-name=kube-vip-cloud-controller\n", "--leader-elect-resource-namespace=kube-system\n", "resourceNames: [kube-vip-cloud-controller]",
				"KUBEVIP_NAMESPACE\n          value: kube-system\n", "KUBEVIP_CONFIG_MAP\n          value: kubevip\n", "resources: [configmaps]\n  resourceNames: [kubevip]\n",
				"key: node-role.kubernetes.io/control-plane\n",
			},
			lacks: []string{"CustomResourceDefinition", "fairlead.io]", "metallb", "fairlead-gossip", "agents]", "--config", "kind: ConfigMap\n", "hostNetwork"},
		},
	} {
		raw, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range test.has {
			if !strings.Contains(string(raw), want) {
				t.Errorf("%s does not contain\n%s", path, want)
			}
		}
		for _, what := range test.lacks {
			if strings.Contains(string(raw), what) {
				t.Errorf("%s has %s, which nobody needs there", path, what)
			}
		}
	}
}

// A value that no template reads does nothing, and a value that changes nothing
// in the snapshot with every value set is not tested.
func TestEveryValueIsUsed(t *testing.T) {
	var values, everything map[string]any
	var templates strings.Builder
	set := map[string]bool{}
	for _, f := range tree(t) {
		switch {
		case f.path == chart+"/values.yaml":
			parse(t, f, &values)
		case f.path == chart+"/testdata/everything.values.yaml":
			parse(t, f, &everything)
		case slices.Contains(otherClouds, strings.TrimPrefix(f.path, chart+"/testdata/")):
			var values map[string]any
			parse(t, f, &values)
			for _, path := range leaves("", values) {
				if strings.HasPrefix(path, "cloudsigma.") {
					set[path] = true
				}
			}
		case strings.HasPrefix(f.path, chart+"/templates/"):
			templates.WriteString(f.text)
		}
	}
	for _, path := range leaves("", everything) {
		set[path] = true
	}
	for _, path := range leaves("", values) {
		// CloudSigma's are read through a variable.
		if text := templates.String(); !strings.Contains(text, ".Values."+path) && !strings.Contains(text, "$"+strings.Replace(path, "cloudsigma.", "sigma.", 1)) {
			t.Errorf("no template reads the value %s", path)
		}
		if !covered(path, set) {
			t.Errorf("testdata/everything.values.yaml does not set %s", path)
		}
	}
}

// otherClouds set the values of clouds other than that of everything.values.yaml: nodes
// are in one cloud only.
var otherClouds = []string{"cloudsigma.values.yaml", "cloudsigmaoutside.values.yaml", "cloudsigmapods.values.yaml"}

// notTogether are values that everything.values.yaml cannot set, and why.
var notTogether = map[string]string{
	"agent.enabled":     "single.values.yaml",
	"cloudscale.names":  "deploy/cloudscale.yaml",
	"controller.kind":   "daemonset.values.yaml",
	"crds.enabled":      "daemonset.values.yaml",
	"kubeVip.names":     "deploy/kube-vip.yaml",
	"kubeVip.provider":  "kubevip.values.yaml",
	"loadBalancerClass": "metallb.values.yaml",

	"metrics.podMonitor.enabled":  "podmonitor.values.yaml",
	"metrics.podMonitor.interval": "podmonitor.values.yaml",
	"metrics.podMonitor.labels":   "podmonitor.values.yaml",
}

func covered(path string, set map[string]bool) bool {
	if notTogether[path] != "" {
		return true
	}
	for p := range set {
		if p == path || strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

func parse(t *testing.T, f file, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(f.text), into); err != nil {
		t.Fatalf("%s: %v", f.path, err)
	}
}

// leaves returns the paths of all values that are no maps with entries. What
// is below "resources" is Kubernetes' own.
func leaves(prefix string, values map[string]any) []string {
	var paths []string
	for key, v := range values {
		if m, is := v.(map[string]any); is && len(m) > 0 && key != "resources" {
			paths = append(paths, leaves(prefix+key+".", m)...)
			continue
		}
		paths = append(paths, prefix+key)
	}
	return paths
}
