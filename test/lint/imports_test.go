package lint

import (
	"strings"
	"testing"
)

// layers from the ground up. A package may import packages of lower layers
// only: not of higher ones, and not of its own. "x/..." is x and all below.
var layers = [][]string{
	{"api/...", "internal/prose"},
	{"internal/cloud", "internal/conntrack", "internal/lb", "internal/ovsdb"},
	{
		"internal/apiretry", "internal/backend", "internal/bfd", "internal/bgp", "internal/cloudscale", "internal/cloudsigma", "internal/compat", "internal/config", "internal/configstate", "internal/dhcp", "internal/elect", "internal/gossipkey",
		"internal/ipam", "internal/kubeapi", "internal/link", "internal/member", "internal/nft", "internal/notary", "internal/ovn", "internal/serve", "internal/wire",
	},
	{
		"internal/apikinds", "internal/compat/cloud", "internal/compat/native",
		"internal/member/membersim", // for tests and benchmarks
		"internal/moves",
	},
	{"internal/compat/cloudscale", "internal/compat/cloudsigma", "internal/compat/kubedc", "internal/compat/kubevip", "internal/compat/metallb"},
	{"internal/eip"},
	{"internal/routes"},
	{"internal/projects"},
	{"internal/backend/..."},
	{"internal/agent/carrying", "internal/agent/dhcplease", "internal/agent/write", "internal/carry", "internal/carrypods", "internal/placement", "internal/reach"},
	{"internal/agent/sources"},
	{"internal/agent", "internal/controller", "internal/nodes"},
	{
		"internal/agent/agentsim", // for tests and benchmarks
		"internal/agent/layer2", "internal/agent/layer3", "internal/agent/metallb", "internal/controller/metallb",
	},
	{"internal/reasons", "internal/setup"},
	{"internal/snapshot"},
	{"internal/migrate", "internal/onnodes", "internal/page"},
	{"internal/onnodes/probe", "internal/tool"},
	{"cmd/fairlead", "cmd/kubectl-fairlead"},
}

// forbidden packages must not be in the product, however they come in.
var forbidden = map[string]string{
	"k8s.io/kubernetes":               "only the module kube/ builds Kubernetes",
	module + "/charts":                "the product does not install itself",
	module + "/cmd/sandbox":           "the sandbox is not part of the product",
	module + "/sandbox":               "the sandbox is not part of the product",
	module + "/test":                  "tests are not part of the product",
	"github.com/stretchr/testify":     "a test library",
	"github.com/google/go-cmp":        "a test library",
	"k8s.io/cloud-provider/app":       "it brings in the whole API server",
	"github.com/sirupsen/logrus":      "there is one way to log: log/slog",
	"sigs.k8s.io/controller-tools":    "a build tool",
	"github.com/rogpeppe/go-internal": "a test library",
}

func TestImportsGoDownward(t *testing.T) {
	for _, p := range packages(t, "./...") {
		from, ours := layerOf(p.ImportPath)
		if !ours {
			continue
		}
		if from < 0 {
			t.Errorf("%s has no layer; give it one in test/lint", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if to, ours := layerOf(imported); ours && to >= from {
				t.Errorf("%s imports %s: imports go downward only", p.ImportPath, imported)
			}
		}
	}
}

func TestProductIsOnlyTheProduct(t *testing.T) {
	for _, p := range packages(t, "-deps", "./cmd/fairlead", "./cmd/kubectl-fairlead") {
		for bad, why := range forbidden {
			if p.ImportPath == bad || strings.HasPrefix(p.ImportPath, bad+"/") {
				t.Errorf("the product depends on %s: %s", p.ImportPath, why)
			}
		}
	}
}

// linuxOnly are packages of ours that build for Linux only. The plugin of kubectl runs
// wherever kubectl does.
var linuxOnly = []string{"internal/agent", "internal/agent/carrying", "internal/carry", "internal/conntrack", "internal/dhcp", "internal/link", "internal/nft", "internal/onnodes/probe", "internal/wire"}

func TestPluginRunsWhereKubectlDoes(t *testing.T) {
	for _, p := range packages(t, "-deps", "./cmd/kubectl-fairlead") {
		for _, bad := range linuxOnly {
			if p.ImportPath == module+"/"+bad {
				t.Errorf("cmd/kubectl-fairlead depends on %s, which needs Linux", p.ImportPath)
			}
		}
	}
}

// layerOf returns the layer of a package, or -1 if it has none, and whether it
// is a package that needs one.
func layerOf(importPath string) (layer int, ours bool) {
	path, ours := strings.CutPrefix(importPath, module+"/")
	if !ours {
		return 0, false
	}
	for i, patterns := range layers {
		for _, pattern := range patterns {
			below, all := strings.CutSuffix(pattern, "/...")
			if path == below || all && strings.HasPrefix(path, below+"/") {
				return i, true
			}
		}
	}
	return -1, strings.HasPrefix(path, "internal/") || strings.HasPrefix(path, "api/")
}
