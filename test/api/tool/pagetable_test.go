package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fairlead.io/test/kit/pages"
	"fairlead.io/test/kit/tree"
)

// elsewhere are commands that TestCommandsOfPages does not run: they begin with command on
// page, or on every page if that is empty. The test that like names does the same in its own
// way, or why says why none does.
var elsewhere = []struct{ page, command, like, why string }{
	{"", "make ", "test/api/tool.TestMakeOfPages", ""},
	{"", "docker ", "", "needs a Docker daemon; nodes of tests load the same archive with ctr, and images of releases go to a registry (test/api/install.TestInstallFromRegistry)"},
	{"docs/tutorial.md", "sandbox ", "test/cluster/install.TestClusterWithFairlead", ""},
	{"", "bin/sandbox cloud ", "test/cluster/sandbox.TestClusterInACloud", ""},
	{"", "kubectl fairlead check --on-nodes", "test/cluster/install.TestCheckOnNodes", ""},
	{"docs/tutorial.md", "export KUBECONFIG=…", "", "make up prints it with the names of its cluster"},
	{"docs/guides/kubectl-fairlead.md", "go build", "test/api/tool.TestMetalLBVerbatim", ""},
	{"docs/guides/kubectl-fairlead.md", "kubectl krew", "", "krew is not installed; cmd/release has a test of the manifest"},
	{"docs/guides/announce.md", "kubectl get agent node1 -o jsonpath='{.status.carried}'", "test/cluster/failover.TestConnectionsSurviveMoves", ""},
	{"docs/guides/announce.md", "ip address", "test/cluster/install.TestClusterWithFairlead", ""},
	{"docs/guides/announce.md", "nft list", "test/cluster/install.TestClusterWithFairlead", ""},
	{"docs/guides/announce.md", "kubectl logs -n metallb-system", "test/cluster/metallb.TestFloatingAddressForGateway", ""},
	{"docs/guides/bgp.md", "kubectl get agent node1", "test/cluster/failover.TestBGPSessions", ""},
	{"docs/guides/page.md", "ssh", "", "needs another machine"},
	{"docs/guides/monitoring.md", "promtool", "charts.TestAlertsFireAndClear", ""},
	{"docs/neighbours/kube-proxy.md", "bin/sandbox --name other up", "test/cluster/cloudsigma.TestDocument", ""},

	{"docs/guides/sandbox.md", "bin/sandbox status", "test/cluster/install.TestClusterWithFairlead", ""},
	{"docs/guides/sandbox.md", "bin/sandbox exec client -- curl http://168", "test/cluster/ovn.TestDocument", ""},
	{"docs/guides/sandbox.md", "bin/sandbox exec client -- arp", "test/cluster/ovn.TestDocument", ""},
	{"docs/guides/sandbox.md", "bin/sandbox exec client -- curl http://203", "test/cluster/sandbox.TestClusterInACloud", ""},
	{"docs/guides/sandbox.md", "bin/sandbox exec", "test/cluster/install.TestClusterWithFairlead", ""},
	{"docs/guides/sandbox.md", "bin/sandbox cloudscale ", "test/api/tool.TestCloudAloneOfPages", ""},
	{"docs/guides/sandbox.md", "bin/sandbox up --bare", "test/cluster/sandbox.TestSecondClusterComesAndGoes", ""},
	{"docs/guides/sandbox.md", "bin/sandbox restart kube-ovn", "test/cluster/ovn.TestKubeOVNStartsAgain", ""},
	{"docs/guides/sandbox.md", "bin/sandbox kill northbound", "test/cluster/ovn.TestLeaderOfDatabaseDies", ""},
	{"docs/guides/sandbox.md", "bin/sandbox restart northbound", "test/cluster/ovn.TestLeaderOfDatabaseDies", ""},
	{"docs/guides/sandbox.md", "kubectl exec -n kube-system deployment/ovn-central", "test/cluster/ovn.TestDocument", ""},

	{"docs/guides/cloudscale.md", "curl", "test/cluster/sandbox.TestClusterInACloud", ""},
	{"docs/guides/migrate-from-kube-dc.md", "kubectl exec", "test/cluster/ovn.TestDocument", ""},
	{"docs/guides/kube-dc.md", "kubectl exec", "test/cluster/ovn.TestDocument", ""},
	{"docs/guides/kube-dc.md", "arp", "test/cluster/ovn.TestDocument", ""},
	{"docs/guides/kube-dc.md", "curl", "test/cluster/ovn.TestDocument", ""},

	{"docs/guides/migrate-from-metallb.md", "kubectl delete daemonset metallb-speaker", "test/api/tool.TestMetalLBBGPVerbatim", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl delete pod", "test/api/tool.TestMetalLBBGPVerbatim", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl wait agent/", "test/api/tool.TestMetalLBBGPVerbatim", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl apply --namespace metallb-system -f -", "test/api/tool.TestMetalLBBGPVerbatim", ""},
	{"docs/guides/migrate-from-metallb.md", "kubectl delete bgppeer", "test/api/tool.TestMetalLBBGPVerbatim", ""},
	{"docs/guides/migrate-from-cloudsigma-ccm.md", "kubectl exec --stdin", "test/cluster/cloudsigma.TestSwap", ""},
	{"docs/guides/migrate-from-cloudsigma-ccm.md", "iptables-save", "test/cluster/cloudsigma.TestSwap", ""},
}

// runsHere says whether TestCommandsOfPages runs a command.
func runsHere(c pages.Command) bool {
	return sessionOf(c) >= 0 && entryOf(c) < 0
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
	used := make([]bool, len(elsewhere))
	total, here, without := 0, 0, 0
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
				default:
					t.Errorf("%s:%d: no test runs %s", page, c.Line, c.Text)
				}
			}
		}
	}
	t.Logf("%d commands: %d run as they are on the pages, %d are in the table, %d of those without a test", total, here, total-here, without)
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
