package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"fairlead.io/cmd/release/oci"
)

// pluginPlatforms are the systems on which kubectl runs.
const pluginPlatforms = "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64"

const pluginName = "kubectl-fairlead"

// krewManifest is what krew reads.
type krewManifest struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector map[string]map[string]string `json:"selector"`
	URI      string                       `json:"uri"`
	SHA256   string                       `json:"sha256"`
	Bin      string                       `json:"bin"`
}

// plugins are archives of the plugin of kubectl, and how krew installs them.
type plugins struct {
	builder
	url       string // the archives' directory
	at        time.Time
	platforms []string
}

// write makes the archives and the manifest in a directory. each is told of every program.
func (p plugins) write(ctx context.Context, out, manifest string, each func(platform, program string) error) error {
	m := krewManifest{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "fairlead"}, Spec: krewSpec{
		Version:          p.version,
		ShortDescription: "See how Fairlead is, and why",
		Description:      "Shows which node announces which address of Services of type LoadBalancer,\nwhy one is pending or not reachable, and what a change would do. Only\n\"check --on-nodes\" writes: a DaemonSet, which it removes at the end.\n",
	}}
	for _, name := range p.platforms {
		entry, err := p.one(ctx, out, name, each)
		if err != nil {
			return err
		}
		m.Spec.Platforms = append(m.Spec.Platforms, entry)
	}
	data, err := yaml.Marshal(m)
	if err != nil {
		return err
	}
	return oci.WriteFile(filepath.Join(out, manifest), data)
}

// completion is the program that kubectl asks what can follow "kubectl fairlead": it has to be
// in the PATH under this name.
func completion(system string) archived {
	const name = "kubectl_complete-fairlead"
	if system == "windows" {
		return archived{name + ".cmd", 0o755, []byte("@" + pluginName + ".exe __complete %*\r\n")}
	}
	return archived{name, 0o755, []byte("#!/bin/sh\nexec " + pluginName + " __complete \"$@\"\n")}
}

// one makes the archive for one system: the program, what completes its arguments, and the
// licence that krew asks for.
func (p plugins) one(ctx context.Context, out, name string, each func(platform, program string) error) (krewPlatform, error) {
	system, arch, _ := strings.Cut(name, "/")
	bin := pluginName
	if system == "windows" {
		bin += ".exe"
	}
	dir, remove, err := scratch()
	if err != nil {
		return krewPlatform{}, err
	}
	defer remove()
	file := filepath.Join(dir, bin)
	if err := p.build(ctx, pluginName, system, arch, file); err != nil {
		return krewPlatform{}, err
	}
	if err := each(system+"_"+arch, file); err != nil {
		return krewPlatform{}, err
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return krewPlatform{}, err
	}
	licence, err := os.ReadFile(p.path("LICENSE"))
	if err != nil {
		return krewPlatform{}, err
	}
	packed, err := archive(p.at, archived{bin, 0o755, program}, completion(system), archived{"LICENSE", 0o644, licence})
	if err != nil {
		return krewPlatform{}, err
	}
	if packed, err = oci.Gzip(packed); err != nil {
		return krewPlatform{}, err
	}
	target := fmt.Sprintf("%s_%s_%s.tar.gz", pluginName, system, arch)
	sum := sha256.Sum256(packed)
	return krewPlatform{
		Selector: map[string]map[string]string{"matchLabels": {"os": system, "arch": arch}},
		URI:      p.url + "/" + target, SHA256: hex.EncodeToString(sum[:]), Bin: bin,
	}, oci.WriteFile(filepath.Join(out, target), packed)
}
