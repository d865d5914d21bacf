package sandbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// kubeLinkerFlags give Kubernetes its version, as its own build does: without
// it kubelet and API server call themselves v0.0.0.
const kubeLinkerFlags = "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=v1.37.0" +
	" -X k8s.io/component-base/version.gitMajor=1" +
	" -X k8s.io/component-base/version.gitMinor=37" +
	" -X k8s.io/component-base/version.gitCommit=" +
	" -X k8s.io/client-go/pkg/version.gitVersion=v1.37.0" +
	" -X k8s.io/client-go/pkg/version.gitMajor=1" +
	" -X k8s.io/client-go/pkg/version.gitMinor=37"

// KubeBinary returns the path of the multi-call binary of the kube module
// ("kube kube-apiserver …", "kube kubectl …"), built as [Binary] says: about ten
// minutes on two cores. Progress is shown on the writer.
func KubeBinary(ctx context.Context, progress io.Writer) (string, error) {
	return Binary{
		Name: "kube", Module: "kube", Package: ".", linkerFlags: kubeLinkerFlags,
		Title: "Kubernetes 1.37 and etcd", Takes: "about ten minutes on two cores",
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
