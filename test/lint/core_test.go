package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// core are the packages that must know no dialect and no backend by name. Packages
// below them may.
var core = []string{"internal/lb", "internal/ipam", "internal/elect", "internal/controller", "internal/agent"}

// systems are the names of dialects and backends.
var systems = regexp.MustCompile(`(?i)metallb|kube-?vip|cloudscale|cloudsigma|kubedc|ovn`)

// stillNames are the core files that still name a system, and until when. The list
// can only become shorter: a file in it that is clean fails the test, too.
var stillNames = map[string]string{
	"internal/agent/classicstatus.go":        "until MetalLB's status objects have a package of their own",
	"internal/agent/configstate.go":          "until MetalLB's status objects have a package of their own",
	"internal/agent/directory.go":            "until the agent reads through dialects",
	"internal/agent/inbox.go":                "until the agent reads through dialects",
	"internal/agent/kubevip.go":              "until the agent reads through dialects",
	"internal/agent/l2plan.go":               "until MetalLB's status objects have a package of their own",
	"internal/agent/l2status.go":             "until MetalLB's status objects have a package of their own",
	"internal/agent/leasehold.go":            "until DHCP leases have a package of their own",
	"internal/agent/leasing.go":              "until DHCP leases have a package of their own",
	"internal/agent/loop.go":                 "until the agent reads through dialects",
	"internal/agent/metrics_metallb.go":      "until MetalLB's status objects have a package of their own",
	"internal/agent/pools.go":                "until the agent reads through dialects",
	"internal/agent/reporter.go":             "until MetalLB's status objects have a package of their own",
	"internal/agent/run.go":                  "until the agent reads through dialects",
	"internal/controller/cloud.go":           "until there is one reconciler for all backends",
	"internal/controller/cloudorphan.go":     "until there is one reconciler for all backends",
	"internal/controller/cloudpatch.go":      "until there is one reconciler for all backends",
	"internal/controller/cloudwatch.go":      "until there is one reconciler for all backends",
	"internal/controller/configstate.go":     "until MetalLB's status objects have a package of their own",
	"internal/controller/controller.go":      "until dialects and backends are behind their interfaces",
	"internal/controller/event.go":           "until dialects and backends are behind their interfaces",
	"internal/controller/foreign.go":         "until MetalLB's status objects have a package of their own",
	"internal/controller/importing.go":       "until dialects and backends are behind their interfaces",
	"internal/controller/kubevip.go":         "until dialects and backends are behind their interfaces",
	"internal/controller/leases.go":          "until dialects and backends are behind their interfaces",
	"internal/controller/metallbstatus.go":   "until MetalLB's status objects have a package of their own",
	"internal/controller/metrics_metallb.go": "until MetalLB's status objects have a package of their own",
	"internal/controller/optional.go":        "until dialects and backends are behind their interfaces",
	"internal/controller/patch.go":           "until dialects and backends are behind their interfaces",
	"internal/controller/poolstatus.go":      "until dialects and backends are behind their interfaces",
	"internal/controller/service.go":         "until dialects and backends are behind their interfaces",
	"internal/controller/telling.go":         "until dialects and backends are behind their interfaces",
	"internal/controller/told.go":            "until dialects and backends are behind their interfaces",
	"internal/controller/watch.go":           "until dialects and backends are behind their interfaces",
	"internal/controller/world.go":           "until dialects and backends are behind their interfaces",
	"internal/ipam/lacking.go":               "until a dialect gives the words of its advice",
	"internal/ipam/refusal.go":               "until a dialect gives the words of its advice",
	"internal/lb/pool.go":                    "until dialects are names that wiring gives",
	"internal/lb/reason.go":                  "until each system has its own table of reasons",
	"internal/lb/reason_cloud.go":            "until each system has its own table of reasons",
	"internal/lb/reason_node.go":             "until each system has its own table of reasons",
	"internal/lb/reason_pool.go":             "until each system has its own table of reasons",
	"internal/lb/reason_service.go":          "until each system has its own table of reasons",
}

// A core file names a system if an identifier, a string, an import or the name of the
// file itself contains its name. Comments may explain what others do.
func TestCoreNamesNoDialectOrBackend(t *testing.T) {
	guilty := map[string]bool{}
	for _, src := range goSources(t) {
		if strings.HasSuffix(src.path, "_test.go") || !slices.Contains(core, path.Dir(src.path)) {
			continue
		}
		found := systemsIn(src)
		if len(found) == 0 {
			continue
		}
		guilty[src.path] = true
		if stillNames[src.path] == "" {
			t.Errorf("%s names %s: what is about one dialect or backend belongs into its package", src.path, strings.Join(found, ", "))
		}
	}
	for _, file := range slices.Sorted(maps.Keys(stillNames)) {
		if !guilty[file] {
			t.Errorf("%s names no system any more: take it off the list in test/lint", file)
		}
	}
}

// systemsIn returns where a file names systems, each place once.
func systemsIn(src goSource) []string {
	found := map[string]bool{}
	if systems.MatchString(path.Base(src.path)) {
		found["one in its own name"] = true
	}
	ast.Inspect(src.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			imported := strings.Trim(n.Path.Value, `"`)
			if systems.MatchString(imported) || strings.HasPrefix(imported, module+"/internal/compat/") || strings.HasPrefix(imported, module+"/internal/backend/") {
				found["the package "+imported] = true
			}
			return false
		case *ast.Ident:
			if systems.MatchString(n.Name) {
				found[n.Name] = true
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && systems.MatchString(n.Value) {
				found[fmt.Sprintf("%.40s", n.Value)] = true
			}
		}
		return true
	})
	return slices.Sorted(maps.Keys(found))
}
