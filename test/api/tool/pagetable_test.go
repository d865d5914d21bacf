package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.io/test/kit/pages"
	"fairlead.io/test/kit/tree"
)

var sessions = []session{{
	name: "native", nodes: []string{"worker-1", "worker-2", "worker-3"},
	first: []string{"helm install", "kubectl apply"},
	pages: []string{
		"README.md", "docs/guides/kubectl-fairlead.md", "docs/guides/pending.md", "docs/guides/announce.md", "docs/guides/bgp.md", "docs/runbooks.md", "docs/guides/pools.md",
		"docs/guides/page.md", "docs/guides/monitoring.md", "docs/neighbours/talos.md", "docs/neighbours/external-dns.md", "docs/tutorial.md",
		"docs/guides/install.md",
	},
	words: map[string]string{"NAMESPACE/SERVICE": "default/web", "NAME": "web", "NODE": "worker-1", "POOL": "edge", "PEER": "tor"},
}}

// operator has the kinds of the Prometheus operator, without their fields.
const operator = `for kind in ServiceMonitor PodMonitor PrometheusRule Prometheus; do
  name=$(tr A-Z a-z <<<$kind)
  case $name in prometheus) plural=prometheuses;; *) plural=${name}s;; esac
  kubectl apply -f - <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $plural.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: $kind, singular: $name, plural: $plural}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
END
  kubectl wait --for=condition=Established crd/$plural.monitoring.coreos.com
done
kubectl create namespace monitoring`

// peered has a peer of MetalLB's kind.
const peered = `kubectl create namespace metallb-system --dry-run=client -o yaml | kubectl apply -f -
kubectl apply -f - <<END
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: tor, namespace: metallb-system}
spec: {myASN: 65010, peerASN: 65001, peerAddress: 192.0.2.254}
END`

var arounds = []around{
	{page: "README.md", command: "kubectl describe service web", after: "kubectl annotate service web fairlead.io/addresses-"},
	{page: "docs/guides/kubectl-fairlead.md", command: "kubectl fairlead why shop/web", before: "kubectl create namespace shop; kubectl create service loadbalancer web --namespace shop --tcp=80"},
	{page: "docs/runbooks.md", command: "kubectl describe bgppeer", before: peered, after: "kubectl delete bgppeer -n metallb-system tor"},
	{page: "docs/guides/kubectl-fairlead.md", command: "kubectl fairlead check -f", before: "mkdir manifests; cp examples/pool.yaml manifests/"},
	{page: "docs/guides/announce.md", command: "kubectl annotate", after: "kubectl annotate service web kube-vip.io/loadbalancerIPs-"},
	{page: "docs/guides/pools.md", command: "kubectl patch", after: `kubectl patch pool edge --type merge -p '{"spec":{"disabled":false}}'`},
	{page: "docs/guides/page.md", command: "kubectl fairlead ui", want: []string{"http://127.0.0.1:"}},
	{page: "docs/guides/monitoring.md", command: "helm upgrade fairlead charts/fairlead --namespace fairlead-system --reuse-values --set agent.metricsPort", before: operator},
	{page: "docs/tutorial.md", command: "kubectl get nodes", before: "kubectl apply -f examples/pool.yaml"},
	{page: "docs/guides/install.md", command: "helm install", before: "helm uninstall fairlead --namespace fairlead-system"},
}

// Why no test runs a command.
const (
	notYet    = "no test runs it yet"
	cloudOnly = "needs a cloud, or its simulator and nodes; no test runs it as it is there yet"
	theirs    = "is of the people who migrate: their file, their names"
)

// elsewhere are commands that TestCommandsOfPages does not run: they begin with command on
// page, or on every page if that is empty. The test that like names does the same in its own
// way, or why says why none does.
var elsewhere = []struct{ page, command, like, why string }{
	{"", "make ", "test/api/tool.TestMakeOfPages", ""},
	{"", "docker ", "", "needs a Docker daemon; nodes of tests load the same archive with ctr, and images of releases go to a registry (test/api/install.TestInstallFromRegistry)"},
	{"", "sandbox ", "test/cluster/sandbox.TestCutAndHeal", ""},
	{"", "bin/sandbox exec", "test/cluster/sandbox.TestClientReachesService", ""},
	{"", "bin/sandbox cloud ", "test/cluster/sandbox.TestClusterInACloud", ""},
	{"", "kubectl fairlead check --on-nodes", "test/cluster/install.TestCheckOnNodes", ""},
	{"docs/tutorial.md", "export KUBECONFIG=…", "", "make up prints it with the names of its cluster"},
	{"docs/guides/kubectl-fairlead.md", "go build", "test/api/tool.TestMetalLBVerbatim", ""},
	{"docs/guides/kubectl-fairlead.md", "kubectl krew", "", "krew is not installed; cmd/release has a test of the manifest"},
	{"docs/guides/pending.md", "kubectl logs -n kube-system deployment/kube-vip-cloud-provider", "", notYet},
	{"docs/guides/pending.md", "kubectl get lease -n kube-system kube-vip", "", notYet},
	{"docs/guides/pending.md", "kubectl auth can-i patch services --as system:serviceaccount:kube-system:kube-vip", "", notYet},
	{"docs/guides/announce.md", "kubectl get agent node1 -o jsonpath='{.status.carried}'", "test/cluster/failover.TestConnectionsSurviveMoves", ""},
	{"docs/guides/announce.md", "ip address", "test/cluster/install.TestClusterWithFairlead", ""},
	{"docs/guides/announce.md", "nft list", "test/cluster/install.TestClusterWithFairlead", ""},
	{"docs/guides/announce.md", "kubectl logs -n metallb-system", "test/cluster/metallb.TestFloatingAddressForGateway", ""},
	{"docs/guides/bgp.md", "kubectl get agent node1", "test/cluster/failover.TestBGPSessions", ""},
	{"docs/guides/page.md", "ssh", "", "needs another machine"},
	{"docs/guides/monitoring.md", "promtool", "charts.TestAlertsFireAndClear", ""},
	{"docs/neighbours/talos.md", "kubectl create namespace fairlead-system", "", "Helm has made it in this cluster"},
	{"docs/neighbours/kube-proxy.md", "bin/sandbox --name other up", "test/cluster/cloudsigma.TestDocument", ""},

	{"docs/guides/sandbox.md", "bin/sandbox status", "test/cluster/sandbox.TestAllHostsAreWell", ""},
	{"docs/guides/sandbox.md", "bin/sandbox cloudscale ", "test/api/tool.TestCloudAloneOfPages", ""},
	{"docs/guides/sandbox.md", "bin/sandbox up --bare", "test/cluster/sandbox.TestSecondClusterComesAndGoes", ""},
	{"docs/guides/sandbox.md", "bin/sandbox restart kube-ovn", "test/cluster/ovn.TestKubeOVNStartsAgain", ""},
	{"docs/guides/sandbox.md", "bin/sandbox kill northbound", "test/cluster/ovn.TestLeaderOfDatabaseDies", ""},
	{"docs/guides/sandbox.md", "bin/sandbox restart northbound", "test/cluster/ovn.TestLeaderOfDatabaseDies", ""},
	{"docs/guides/sandbox.md", "sed ", "", notYet},
	{"docs/guides/sandbox.md", "kubectl create configmap kubevip", "", notYet},
	{"docs/guides/sandbox.md", "kubectl get services,eip", "test/cluster/ovn.TestDocument", ""},
	{"docs/guides/sandbox.md", "kubectl exec -n kube-system deployment/ovn-central", "test/cluster/ovn.TestDocument", ""},
	{"docs/guides/sandbox.md", "kubectl get vpc", "", notYet},

	{"docs/guides/cloudscale.md", "kubectl ", "", cloudOnly},
	{"docs/guides/cloudscale.md", "helm install", "", cloudOnly},
	{"docs/guides/cloudscale.md", "CLOUDSCALE_ACCESS_TOKEN=", "test/api/nodes.TestInThePlaceOfTheCloudControllerManager", ""},
	{"docs/guides/cloudscale.md", "curl", "test/cluster/sandbox.TestClusterInACloud", ""},
	{"docs/guides/cloudsigma.md", "kubectl ", "", cloudOnly},
	{"docs/guides/cloudsigma.md", "helm ", "", cloudOnly},
	{"docs/guides/cloudsigma.md", "sed ", "", cloudOnly},
	{"docs/guides/cloudsigma.md", "CLOUDSIGMA_REGION=", "", cloudOnly},
	{"docs/guides/kube-dc.md", "sed ", "", notYet},
	{"docs/guides/kube-dc.md", "helm install fairlead charts/fairlead --namespace kube-system --set ovn.enabled=true --set 'ovn.northbound={ssl", "", "needs a database with certificates"},
	{"docs/guides/kube-dc.md", "kubectl exec", "test/cluster/ovn.TestDocument", ""},
	{"docs/guides/kube-dc.md", "kubectl logs", "", notYet},
	{"docs/guides/kube-dc.md", "kubectl get deployment", "", notYet},
	{"docs/guides/kube-dc.md", "kubectl get vpc", "", notYet},
	{"docs/guides/kube-dc.md", "kubectl get pods -n kube-system -l ovn-nb-leader", "", notYet},
	{"docs/guides/kube-dc.md", "kubectl describe", "", notYet},
	{"docs/guides/kube-dc.md", "kubectl annotate namespace", "test/api/install.TestOVNWithPools", ""},
	{"docs/guides/kube-dc.md", "arp", "test/cluster/ovn.TestDocument", ""},
	{"docs/guides/kube-dc.md", "curl", "test/cluster/ovn.TestDocument", ""},

	{"docs/guides/migrate-from-metallb.md", "kubectl fairlead migrate", "test/api/tool.TestMetalLBVerbatim", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl create -f deploy/metallb-crds.yaml", "test/api/install.TestMetalLBKindsOfOthers", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl delete validatingwebhookconfiguration", "test/api/tool.TestMetalLBVerbatim", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl get ", "", notYet},
	{"docs/guides/migrate-from-metallb.md", "kubectl rollout status", "", notYet},
	{"docs/guides/migrate-from-metallb.md", "kubectl delete daemonset metallb-speaker", "test/api/tool.TestMetalLBBGPVerbatim", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl delete pod", "test/api/tool.TestMetalLBBGPVerbatim", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl wait agent/", "test/api/tool.TestMetalLBBGPVerbatim", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl apply --namespace metallb-system -f -", "test/api/tool.TestMetalLBBGPVerbatim", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl delete bgppeer", "test/api/tool.TestMetalLBBGPVerbatim", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl delete frrconfigurations", "", "needs frr-k8s, which is not here"},
	{"docs/guides/migrate-from-metallb.md", "kubectl scale --namespace metallb-system deployment/controller", "", notYet},
	{"docs/guides/migrate-from-metallb.md", "kubectl delete --namespace metallb-system daemonset/speaker", "", notYet},
	{"docs/guides/migrate-from-metallb.md", "kubectl delete clusterrole,clusterrolebinding", "", notYet},
	{"docs/guides/migrate-from-metallb.md", "kubectl delete role,rolebinding", "", notYet},
	{"docs/guides/migrate-from-metallb.md", "kubectl patch service NAME", "test/api/stories.TestStories", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl annotate service NAME", "test/api/stories.TestStories", ""},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl fairlead migrate", "test/api/tool.TestMigrate", ""},
	{"docs/guides/migrate-from-kube-vip.md", "helm template", "test/cluster/kubevip.TestReplaceKubeVIPAndBack", ""},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl get services", "", notYet},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl describe service NAME", "", notYet},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl get configmap kube-vip-cloud-provider-cm", "", theirs},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl create configmap kubevip", "", notYet},
	{"docs/guides/migrate-from-kube-vip.md", "helm uninstall kube-vip-cloud-provider", "", theirs},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl apply -f kube-vip", "", theirs},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl set env", "", notYet},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl delete daemonset kube-vip-ds", "test/api/tool.TestMigrate", ""},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl delete pod", "test/api/tool.TestMigrate", ""},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl wait agent/", "test/api/tool.TestMigrate", ""},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl delete --namespace kube-system deployment/kube-vip-cloud-provider", "", notYet},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl delete clusterrole/", "", notYet},
	{"docs/guides/migrate-from-kube-vip.md", "kubectl delete lease", "", notYet},
	{"docs/guides/migrate-from-cloudscale-ccm.md", "kubectl fairlead migrate", "test/api/tool.TestMigrate", ""},
	{"docs/guides/migrate-from-cloudscale-ccm.md", "kubectl apply -f config.yml", "", theirs},
	{"docs/guides/migrate-from-cloudscale-ccm.md", "kubectl ", "", cloudOnly},
	{"docs/guides/migrate-from-cloudscale-ccm.md", "helm ", "", cloudOnly},
	{"docs/guides/migrate-from-cloudscale-ccm.md", "CLOUDSCALE_ACCESS_TOKEN=", "", cloudOnly},
	{"docs/guides/migrate-from-cloudsigma-ccm.md", "kubectl fairlead migrate", "test/api/tool.TestMigrate", ""},
	{"docs/guides/migrate-from-cloudsigma-ccm.md", "kubectl exec --stdin", "test/cluster/cloudsigma.TestSwap", ""},
	{"docs/guides/migrate-from-cloudsigma-ccm.md", "kubectl get services --all-namespaces --no-headers", "test/cluster/cloudsigma.TestSwap", ""},
	{"docs/guides/migrate-from-cloudsigma-ccm.md", "kubectl wait", "test/cluster/cloudsigma.TestSwap", ""},
	{"docs/guides/migrate-from-cloudsigma-ccm.md", "kubectl ", "", cloudOnly},
	{"docs/guides/migrate-from-cloudsigma-ccm.md", "helm ", "", cloudOnly},
	{"docs/guides/migrate-from-cloudsigma-ccm.md", "curl", "", "asks the real cloud"},
	{"docs/guides/migrate-from-cloudsigma-ccm.md", "iptables-save", "test/cluster/cloudsigma.TestSwap", ""},
	{"docs/guides/migrate-from-cloudsigma-ccm.md", "ip ", "", cloudOnly},
	{"docs/guides/migrate-from-kube-dc.md", "helm ", "test/api/install.TestKubeDCThereAndBack", ""},
	{"docs/guides/migrate-from-kube-dc.md", "kubectl ", "", notYet},
}

// runsHere says whether TestCommandsOfPages runs a command.
func runsHere(c pages.Command) bool {
	return slices.ContainsFunc(sessions, func(s session) bool { return slices.Contains(s.pages, c.Page) }) && entryOf(c) < 0
}

func entryOf(c pages.Command) int {
	text := pages.Oneline(c.Text)
	for i, e := range elsewhere {
		if (e.page == "" || e.page == c.Page) && strings.HasPrefix(text, e.command) {
			return i
		}
	}
	return -1
}

// Every command of README and the guides runs in a test, or the table has the reason.
func TestEveryCommandOfThePagesRuns(t *testing.T) {
	literal, used := pages.InTests(t), make([]bool, len(elsewhere))
	total, here, others, without := 0, 0, 0, 0
	for _, page := range pages.Guides(t) {
		for _, b := range pages.Read(t, page) {
			if hidden := b.Hidden(); hidden != "" {
				t.Errorf("%s:%d: %q looks like a command in a block that is not for the shell", page, b.Line, hidden)
			}
			for _, c := range b.Commands() {
				total++
				entry := entryOf(c)
				switch {
				case !c.Known() && entry < 0:
					t.Errorf("%s:%d: %q is a command, or output in a block without \"$ \"?", page, c.Line, c.Text)
				case entry >= 0:
					used[entry] = true
					if elsewhere[entry].like == "" {
						without++
					}
				case runsHere(c):
					here++
				case slices.ContainsFunc(literal, func(text string) bool { return strings.Contains(text, withoutImage(c)) }):
					others++
				default:
					t.Errorf("%s:%d: no test runs %s", page, c.Line, c.Text)
				}
			}
		}
	}
	t.Logf("%d commands: %d run as they are on the pages, %d are in other tests, %d in the table, %d of those without a test", total, here, others, total-here-others, without)
	if here < 100 {
		t.Errorf("only %d of %d commands run", here, total)
	}
	for i, e := range elsewhere {
		if !used[i] {
			t.Errorf("the table has %s %q, which no page has", e.page, e.command)
		}
		if (e.like == "") == (e.why == "") {
			t.Errorf("the table has %s %q with like and why, or with neither", e.page, e.command)
		}
		if err := testExists(e.like); err != nil {
			t.Errorf("%s %q: %v", e.page, e.command, err)
		}
	}
}

// withoutImage is a command without the values for the image: in tests, nodes have it.
func withoutImage(c pages.Command) string {
	return strings.TrimSuffix(pages.Oneline(c.Text), " --set image.repository=registry.example/fairlead --set image.tag=0.1.0")
}

// testExists wants a test, given as directory.Name, to be there.
func testExists(test string) error {
	if test == "" {
		return nil
	}
	dir, name, _ := strings.Cut(test, ".")
	files, err := filepath.Glob(tree.Path(dir, "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if regexp.MustCompile(`(?m)^func ` + name + `\(`).Match(text) {
			return nil
		}
	}
	return fmt.Errorf("there is no test %s", test)
}
