package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// kubernetesVariable is the environment variable that chooses another Kubernetes than
// kube/go.mod: "1.36" is that of kube/1.36.mod.
const kubernetesVariable = "FAIRLEAD_KUBERNETES"

// KubeBinary returns the path of the multi-call binary of the kube module
// ("kube kube-apiserver …", "kube kubectl …"), built as [Binary] says: about ten
// minutes on two cores. Progress is shown on the writer. The environment
// variable FAIRLEAD_KUBERNETES chooses an older minor version, such as 1.36.
func KubeBinary(ctx context.Context, progress io.Writer) (string, error) {
	source, err := kubeSource()
	if err != nil {
		return "", err
	}
	module, err := findKubeModule(source, os.Getenv(kubernetesVariable))
	if err != nil {
		return "", err
	}
	return Binary{
		Name: "kube", Module: "kube", Package: ".", moduleFile: module.file, linkerFlags: module.linkerFlags(),
		Title: "Kubernetes " + module.version + " and etcd", Takes: "about ten minutes on two cores",
	}.Path(ctx, progress)
}

// kubeSource finds the kube module: beside the go.mod of the directory we are
// in, as tests and "go run" are.
func kubeSource() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		kube := filepath.Join(dir, "kube")
		if _, err := os.Stat(filepath.Join(kube, "go.mod")); err == nil {
			return kube, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the kube module: neither %s nor a directory above it has kube/go.mod; run this inside a checkout", start)
		}
	}
}

// kubeModule is one of the module files of the kube module: the source is the
// same for all versions of Kubernetes.
type kubeModule struct {
	file    string // "go.mod", or "1.36.mod"
	version string // of Kubernetes, such as "1.36.4"
}

var requiresKubernetes = regexp.MustCompile(`(?m)^require k8s\.io/kubernetes v(1\.\d+\.\d+)$`)

// findKubeModule finds the module file of a minor version, or go.mod if it is
// empty.
func findKubeModule(source, minor string) (kubeModule, error) {
	m := kubeModule{file: "go.mod"}
	if minor != "" {
		m.file = filepath.Base(minor) + ".mod"
	}
	path := filepath.Join(source, m.file)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s is %q, but there is no %s; unset it, or choose a minor version that has such a file", kubernetesVariable, minor, path)
	} else if err != nil {
		return m, fmt.Errorf("read the versions of kube: %w", err)
	}
	match := requiresKubernetes.FindSubmatch(content)
	if match == nil {
		return m, fmt.Errorf("read the versions of kube: %s does not require a version of k8s.io/kubernetes", path)
	}
	m.version = string(match[1])
	return m, nil
}

// linkerFlags give Kubernetes its version, as its own build does: without
// it kubelet and API server call themselves v0.0.0.
func (m kubeModule) linkerFlags() string {
	parts := strings.Split(m.version, ".")
	flags := "-s -w -X k8s.io/component-base/version.gitCommit="
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %s.gitVersion=v%s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, m.version, parts[0], parts[1])
	}
	return flags
}
