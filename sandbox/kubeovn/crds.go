package kubeovn

import (
	"embed"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed crds/*.yaml
var files embed.FS

// CRDs returns the definitions of kube-ovn's and kube-dc's kinds, as far as Fairlead uses
// them, ordered by name.
func CRDs() []*apiextensionsv1.CustomResourceDefinition {
	paths, err := fs.Glob(files, "crds/*.yaml")
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
