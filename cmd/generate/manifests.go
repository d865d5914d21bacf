package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"fairlead.io/deploy"
)

// manifests renders the chart: the files in deploy/, and one snapshot for each
// charts/fairlead/testdata/*.values.yaml.
func manifests() (files, error) {
	made := files{}
	rendered, err := deploy.Render(func(args ...string) ([]byte, error) { return tool(append([]string{"helm"}, args...)...) }, deploy.Chart)
	if err != nil {
		return nil, err
	}
	for name, content := range rendered {
		made[filepath.Join("deploy", name)] = content
	}

	values, err := filepath.Glob(filepath.Join(deploy.Chart, "testdata", "*.values.yaml"))
	if err != nil {
		return nil, err
	}
	for _, path := range values {
		out, err := tool("helm", "template", "fairlead", deploy.Chart, "--namespace", deploy.Namespace, "--values", path)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", path, err)
		}
		made[strings.TrimSuffix(path, ".values.yaml")+".yaml"] = out
	}
	return made, nil
}
