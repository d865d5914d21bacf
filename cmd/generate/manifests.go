package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

const (
	chart     = "charts/fairlead"
	namespace = "fairlead-system"
)

// manifestHeader opens deploy/fairlead.yaml. A chart cannot have the namespace
// it is installed into, so the namespace is written here.
const manifestHeader = `# Fairlead without Helm: kubectl apply -f fairlead.yaml
#
# Rendered from charts/fairlead by "make generate". Do not edit.
---
apiVersion: v1
kind: Namespace
metadata:
  name: ` + namespace + `
`

// manifests renders the chart: deploy/fairlead.yaml with no values, and one
// snapshot for each charts/fairlead/testdata/*.values.yaml.
func manifests() (files, error) {
	made := files{}
	plain, err := render()
	if err != nil {
		return nil, err
	}
	made["deploy/fairlead.yaml"] = append([]byte(manifestHeader), plain...)

	values, err := filepath.Glob(filepath.Join(chart, "testdata", "*.values.yaml"))
	if err != nil {
		return nil, err
	}
	for _, path := range values {
		out, err := render("--values", path)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", path, err)
		}
		made[strings.TrimSuffix(path, ".values.yaml")+".yaml"] = out
	}
	return made, nil
}

func render(args ...string) ([]byte, error) {
	return tool(append([]string{"helm", "template", "fairlead", chart, "--namespace", namespace}, args...)...)
}
