// Package charts embeds the custom resource definitions of the Helm chart, so
// that tests install exactly what the chart does. The product does not need it.
package charts

import (
	"embed"
	"fmt"
	"io/fs"

	"sigs.k8s.io/yaml"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

//go:embed fairlead/files/crds/*.yaml fairlead/files/metallb/*.yaml
var files embed.FS

// CRDs returns the definitions of our kinds, ordered by name.
func CRDs() []*apiextensionsv1.CustomResourceDefinition {
	return definitions("fairlead/files/crds/*.yaml")
}

// MetalLBCRDs returns the definitions of MetalLB's kinds as the chart installs
// them where there are none, ordered by name.
func MetalLBCRDs() []*apiextensionsv1.CustomResourceDefinition {
	return definitions("fairlead/files/metallb/*.yaml")
}

func definitions(pattern string) []*apiextensionsv1.CustomResourceDefinition {
	paths, err := fs.Glob(files, pattern)
	if err != nil {
		panic(fmt.Sprintf("list the embedded definitions: %v", err))
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, path := range paths {
		raw, err := files.ReadFile(path)
		if err != nil {
			panic(fmt.Sprintf("read the embedded %s: %v", path, err))
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
			panic(fmt.Sprintf("parse the embedded %s: %v", path, err))
		}
		crds = append(crds, &crd)
	}
	return crds
}
