package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fairlead.io/cmd/release/oci"
	"fairlead.io/deploy"
	"fairlead.io/sandbox"
)

// imageArchs are the architectures of nodes.
var imageArchs = []string{"amd64", "arm64"}

// assemble builds everything that belongs to a release.
func assemble(ctx context.Context, repo repository, r release, v version, changes entry, dist string, log io.Writer) error {
	b := builder{repo.dir, v.tag()}
	var err error
	if r.Go, err = b.goVersion(ctx); err != nil {
		return err
	}
	files := filepath.Join(dist, filesDir)
	if err := oci.MakeDir(files); err != nil {
		return err
	}
	sbom := func(name, program string) error {
		content, err := sbomOf(program, name, v, r.Time)
		if err != nil {
			return err
		}
		return oci.WriteFile(filepath.Join(files, name+".spdx.json"), content)
	}

	if r.Image.Digest, err = assembleImage(ctx, b, r, dist, sbom, log); err != nil {
		return err
	}

	fmt.Fprintln(log, "Pack the chart")
	chart, err := packChart(ctx, repo, v, r.Image.Name, r.Image.Digest, r.Time)
	if err != nil {
		return err
	}
	layout, err := oci.NewLayout(filepath.Join(dist, chartDir))
	if err != nil {
		return err
	}
	root, err := addChart(layout, chart, annotationsOf(r, "fairlead"))
	if err != nil {
		return err
	}
	if err := layout.Tag(root, r.Version); err != nil {
		return err
	}
	r.Chart.Digest = root.Digest
	packed := filepath.Join(files, "fairlead-"+r.Version+".tgz")
	if err := oci.WriteFile(packed, chart.content); err != nil {
		return err
	}
	systems, err := writeManifests(ctx, b, packed, files, r)
	if err != nil {
		return err
	}

	fmt.Fprintln(log, "Build the plugin of kubectl for", pluginPlatforms)
	p := plugins{b, r.Downloads, r.Time, strings.Fields(pluginPlatforms)}
	if err := p.write(ctx, files, "krew-fairlead.yaml", func(platform, program string) error {
		return sbom(pluginName+"_"+platform, program)
	}); err != nil {
		return err
	}

	if err := oci.WriteFile(filepath.Join(files, "NOTES.md"), notesOf(r, v, changes, systems)); err != nil {
		return err
	}
	if err := writeSums(files); err != nil {
		return err
	}
	return finish(dist, r)
}

// finish names the files by one digest and describes the release.
func finish(dist string, r release) error {
	dir, remove, err := scratch()
	if err != nil {
		return err
	}
	defer remove()
	_, root, err := filesArtifact(dist, dir, r)
	if err != nil {
		return err
	}
	r.Files.Digest = root.Digest
	return r.write(dist)
}

// assembleImage builds the images of all architectures, and returns the digest of the one
// that is all of them.
func assembleImage(ctx context.Context, b builder, r release, dist string, sbom func(name, program string) error, log io.Writer) (string, error) {
	layout, err := oci.NewLayout(filepath.Join(dist, imageDir))
	if err != nil {
		return "", err
	}
	dir, remove, err := scratch()
	if err != nil {
		return "", err
	}
	defer remove()
	var images []oci.Descriptor
	for _, arch := range imageArchs {
		fmt.Fprintln(log, "Build the image for", arch)
		program := filepath.Join(dir, arch)
		if err := b.build(ctx, "fairlead", "linux", arch, program); err != nil {
			return "", err
		}
		if err := sbom("fairlead_linux_"+arch, program); err != nil {
			return "", err
		}
		image := sandbox.FairleadImage("", program) // as it is tested
		layer, err := image.Layer()
		if err != nil {
			return "", err
		}
		d, err := layout.AddImage(oci.Image{
			Platform: oci.Platform{Architecture: arch, OS: "linux"}, Layer: layer, Entrypoint: image.Entrypoint, User: image.User,
			Created: r.Time, Annotations: annotationsOf(r, "Fairlead"),
		})
		if err != nil {
			return "", err
		}
		images = append(images, d)
	}
	root, err := layout.AddIndex(images, annotationsOf(r, "Fairlead"))
	if err != nil {
		return "", err
	}
	return root.Digest, layout.Tag(root, r.Version)
}

// writeManifests renders the chart of the release for those without Helm: one manifest for
// each system that Fairlead replaces.
func writeManifests(ctx context.Context, b builder, chart, files string, r release) ([]string, error) {
	helm, err := b.helm(ctx)
	if err != nil {
		return nil, err
	}
	rendered, err := deploy.Render(helm, chart)
	if err != nil {
		return nil, err
	}
	var names []string
	for name, content := range rendered {
		for image := range imagesIn(content) {
			if want := r.Image.Name + ":" + r.Version + "@" + r.Image.Digest; image != want {
				return nil, fmt.Errorf("%s has the image %s, not %s", name, image, want)
			}
			names = append(names, name)
		}
		content = bytes.Replace(content, []byte(`# Rendered from charts/fairlead by "make generate". Do not edit.`), []byte("# Fairlead "+r.Version+", rendered from its chart."), 1)
		if err := oci.WriteFile(filepath.Join(files, name), content); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// imagesIn are the images that pods of a manifest run.
func imagesIn(manifest []byte) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(string(manifest)) {
		if image, is := strings.CutPrefix(strings.TrimSpace(line), "image: "); is {
			found[strings.Trim(image, `"`)] = true
		}
	}
	return found
}

// writeSums writes the checksums of all files of a directory, for sha256sum --check.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return oci.WriteFile(filepath.Join(dir, sumsFile), sums.Bytes())
}
