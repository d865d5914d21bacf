package main

import (
	"os"
	"path/filepath"
)

// crdDirs has, by the package of kinds, where their CRDs are. Those of kinds that
// Fairlead never installs are for tests and the sandbox.
var crdDirs = map[string]string{
	"api/v1alpha1": "charts/fairlead/files/crds",
	"api/metallb":  "charts/fairlead/files/metallb",
	"api/kubedc":   "sandbox/kubeovn/crds",
	"api/kubeovn":  "sandbox/kubeovn/crds",
}

// kinds makes what follows from the Go types in api/: the methods that copy
// them, and their CRDs.
func kinds() (files, error) {
	made := files{}
	for from, to := range crdDirs {
		if err := kindsOf(from, to, made); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func kindsOf(from, to string, made files) error {
	dir, err := os.MkdirTemp("", "fairlead-generate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := tool("controller-gen", "paths=./"+from,
		"object", "output:object:dir="+filepath.Join(dir, "go"),
		"crd", "output:crd:dir="+filepath.Join(dir, "crds")); err != nil {
		return err
	}
	const copies = "zz_generated.deepcopy.go"
	if made[filepath.Join(from, copies)], err = os.ReadFile(filepath.Join(dir, "go", copies)); err != nil {
		return err
	}
	crds, err := os.ReadDir(filepath.Join(dir, "crds"))
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if made[filepath.Join(to, crd.Name())], err = os.ReadFile(filepath.Join(dir, "crds", crd.Name())); err != nil {
			return err
		}
	}
	return nil
}
