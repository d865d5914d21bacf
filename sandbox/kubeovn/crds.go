package kubeovn

import (
	"embed"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed crds/*.yaml rules/*.yaml
var files embed.FS

// CRDs returns the definitions of kube-ovn's and kube-dc's kinds, as far as Fairlead uses
// them, ordered by name.
func CRDs() []*apiextensionsv1.CustomResourceDefinition { return definitions("crds/*.yaml") }

// RuleCRDs returns the definitions of kube-ovn's kinds that [Network] reads besides:
// OvnSnatRule and OvnFip.
func RuleCRDs() []*apiextensionsv1.CustomResourceDefinition { return definitions("rules/*.yaml") }

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
