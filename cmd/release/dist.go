package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"fairlead.io/cmd/release/oci"
)

// What is in the directory of a release.
const (
	releaseFile   = "release.json" // what it is: [release]
	imageDir      = "image"        // OCI layout of the images
	chartDir      = "chart"        // OCI layout of the chart
	filesDir      = "files"        // what people download
	signaturesDir = "signatures"   // OCI layout; made by sign
	sumsFile      = "SHA256SUMS"   // of all other files in filesDir
)

// mediaFiles is the type of the artifact with all files of a release.
const mediaFiles = "application/vnd.fairlead.release.v1"

// release says what was built, from what, and where it belongs.
type release struct {
	Version   string    `json:"version"`
	Commit    string    `json:"commit"`
	Branch    string    `json:"branch"`
	Time      time.Time `json:"time"` // of the commit
	Go        string    `json:"go"`
	Tested    string    `json:"tested"` // the command that passed before it was built
	Registry  string    `json:"registry"`
	Downloads string    `json:"downloads"` // URL of the files
	Image     artifact  `json:"image"`
	Chart     artifact  `json:"chart"`
	Files     artifact  `json:"files"`
}

// artifact is something in a registry.
type artifact struct {
	Name   string `json:"name"` // with the registry's host
	Digest string `json:"digest"`
}

// names are where the parts of a release belong.
func (r *release) names() {
	r.Image.Name, r.Chart.Name, r.Files.Name = r.Registry+"/fairlead", r.Registry+"/charts/fairlead", r.Registry+"/files"
}

// split is the host of a name and the repository there.
func (a artifact) split() (host, repository string) {
	host, repository, _ = strings.Cut(a.Name, "/")
	return host, repository
}

var (
	registryPattern  = regexp.MustCompile(`^[a-z0-9.-]+(:\d+)?(/[a-z0-9]+([._-][a-z0-9]+)*)*$`)
	downloadsPattern = regexp.MustCompile(`^https://[a-z0-9.-]+(:\d+)?(/[A-Za-z0-9._~-]+)*$`)
)

// destination reads from the environment where a release belongs. It is part of the
// release: charts and manifests name the image, krew's manifest the archives.
func destination(getenv func(string) string) (registry, downloads string, err error) {
	registry, downloads = getenv("FAIRLEAD_REGISTRY"), getenv("FAIRLEAD_DOWNLOADS")
	switch {
	case registry == "":
		return "", "", errors.New("FAIRLEAD_REGISTRY is not set. Set it to where images and charts belong, such as registry.example/fairlead")
	case !registryPattern.MatchString(registry):
		return "", "", fmt.Errorf("FAIRLEAD_REGISTRY is %q, not a registry such as registry.example/fairlead", registry)
	case downloads == "":
		return "", "", errors.New("FAIRLEAD_DOWNLOADS is not set. Set it to the URL below which people find the files of each version, such as https://github.com/OWNER/REPOSITORY/releases/download")
	case !downloadsPattern.MatchString(downloads):
		return "", "", fmt.Errorf("FAIRLEAD_DOWNLOADS is %q, not a URL such as https://downloads.example/fairlead", downloads)
	}
	return registry, downloads, nil
}

// filesArtifact makes an artifact of all files for download, in a layout of its own.
func filesArtifact(dist, scratch string, r release) (oci.Layout, oci.Descriptor, error) {
	l, err := oci.NewLayout(scratch)
	if err != nil {
		return l, oci.Descriptor{}, err
	}
	entries, err := os.ReadDir(filepath.Join(dist, filesDir)) // sorted by name
	if err != nil {
		return l, oci.Descriptor{}, err
	}
	var blobs []oci.Descriptor
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dist, filesDir, e.Name()))
		if err != nil {
			return l, oci.Descriptor{}, err
		}
		d, err := l.Add("application/octet-stream", content)
		if err != nil {
			return l, oci.Descriptor{}, err
		}
		d.Annotations = map[string]string{"org.opencontainers.image.title": e.Name()}
		blobs = append(blobs, d)
	}
	d, err := l.AddArtifact(mediaFiles, blobs, annotationsOf(r, "Files of Fairlead"))
	return l, d, err
}

// annotationsOf describe a part of a release.
func annotationsOf(r release, title string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    title,
		"org.opencontainers.image.version":  r.Version,
		"org.opencontainers.image.revision": r.Commit,
		"org.opencontainers.image.created":  r.Time.Format(time.RFC3339),
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

func (r release) write(dist string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return oci.WriteFile(filepath.Join(dist, releaseFile), append(content, '\n'))
}

// built is a release in a directory, of which every byte was compared with what create
// wrote.
type built struct {
	release
	dist  string
	parts []part
}

// part is something to upload.
type part struct {
	artifact
	tag    string
	layout oci.Layout
	root   oci.Descriptor
}

// openDist reads a release and checks that nothing in it was changed. The layout with the
// files is in scratch.
func openDist(dist, scratch string) (built, error) {
	b := built{dist: dist}
	content, err := os.ReadFile(filepath.Join(dist, releaseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return b, fmt.Errorf("there is no release in %s. Run \"helpers/release create\" first", dist)
	}
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(content, &b.release); err != nil {
		return b, fmt.Errorf("read %s: %w", filepath.Join(dist, releaseFile), err)
	}
	if _, err := parseVersion(b.Version); err != nil {
		return b, fmt.Errorf("read %s: %w", filepath.Join(dist, releaseFile), err)
	}
	files, root, err := filesArtifact(dist, scratch, b.release)
	if err != nil {
		return b, err
	}
	b.parts = []part{{artifact: b.Files, tag: b.Version, layout: files, root: root}}
	for _, p := range []part{
		{artifact: b.Image, tag: b.Version, layout: oci.OpenLayout(filepath.Join(dist, imageDir))},
		{artifact: b.Chart, tag: b.Version, layout: oci.OpenLayout(filepath.Join(dist, chartDir))},
	} {
		tags, err := p.layout.Tags()
		if err != nil {
			return b, err
		}
		p.root = tags[b.Version]
		b.parts = append(b.parts, p)
	}
	for _, p := range b.parts {
		if p.root.Digest != p.Digest {
			return b, fmt.Errorf("%s was changed after it was tested and built: %s is %s, not %s. Run \"helpers/release create\" again", dist, p.Name, p.root.Digest, p.Digest)
		}
		if _, err := p.layout.Parts(p.root); err != nil {
			return b, fmt.Errorf("%s was changed after it was tested and built: %w. Run \"helpers/release create\" again", dist, err)
		}
	}
	return b, nil
}
