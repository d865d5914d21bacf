package main

import (
	"bytes"
	"fmt"
)

// notesOf are the notes of a release: how to install it, what is in it, what has changed.
func notesOf(r release, v version, changes entry, manifests []string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Fairlead %s\n\n", r.Version)
	if v.pre > 0 {
		fmt.Fprintf(&b, "A pre-release of %s, to try it. It may change before the release.\n\n", v.real())
	}
	fmt.Fprintf(&b, "Install it with Helm:\n\n    helm install fairlead oci://%s --version %s \\\n      --namespace fairlead-system --create-namespace\n\n", r.Chart.Name, r.Version)
	b.WriteString("Or without Helm, one of these. Each but fairlead.yaml is for a system that Fairlead replaces: read its\nguide in docs/guides first, which says what to stop and which Secret it needs.\n\n")
	for _, name := range manifests {
		fmt.Fprintf(&b, "    kubectl apply -f %s/%s\n", r.Downloads, name)
	}
	fmt.Fprintf(&b, "\nIf MetalLB never ran in your cluster, create its CRDs before you apply metallb.yaml:\n\n    kubectl create -f %s/metallb-crds.yaml\n\n", r.Downloads)
	fmt.Fprintf(&b, "The plugin of kubectl, for Linux, macOS and Windows:\n\n    kubectl krew install --manifest-url=%s/krew-fairlead.yaml\n\n", r.Downloads)
	fmt.Fprintf(&b, "Or without krew, unpack the archive for your system into a directory of your $PATH, such as\n\n    curl -fsSL %s/kubectl-fairlead_linux_amd64.tar.gz | tar -xz -C /usr/local/bin kubectl-fairlead\n\n", r.Downloads)
	fmt.Fprintf(&b, "Image, for amd64 and arm64:\n\n    %s:%s@%s\n\n", r.Image.Name, r.Version, r.Image.Digest)
	fmt.Fprintf(&b, "`SHA256SUMS` has the checksums of all files (`sha256sum --check SHA256SUMS`), the `.spdx.json` files\nwhat each program was built from. Built from commit %s with %s; the same commit and Go version give the same bytes.\n\n", r.Commit, r.Go)
	fmt.Fprintf(&b, "## Changes\n\n%s\n", changes.text)
	return b.Bytes()
}
