package main

import (
	"os"
	"path/filepath"
)

const (
	deepCopies = "api/v1alpha1/zz_generated.deepcopy.go"
	crdDir     = "charts/fairlead/files/crds"
)

// kinds makes what follows from the Go types in api/: the methods that copy
// them, and their CRDs.
func kinds() (files, error) {
	dir, err := os.MkdirTemp("", "fairlead-generate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if _, err := tool("controller-gen", "paths=./api/v1alpha1",
		"object", "output:object:dir="+filepath.Join(dir, "go"),
		"crd", "output:crd:dir="+filepath.Join(dir, "crds")); err != nil {
		return nil, err
	}
	made := files{}
	if made[deepCopies], err = os.ReadFile(filepath.Join(dir, "go", filepath.Base(deepCopies))); err != nil {
		return nil, err
	}
	crds, err := os.ReadDir(filepath.Join(dir, "crds"))
	if err != nil {
		return nil, err
	}
	for _, crd := range crds {
		if made[filepath.Join(crdDir, crd.Name())], err = os.ReadFile(filepath.Join(dir, "crds", crd.Name())); err != nil {
			return nil, err
		}
	}
	return made, nil
}
