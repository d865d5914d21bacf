// Package oci makes container images and other artifacts, stores them as OCI image
// layouts, and uploads them to registries. What it writes follows from its input alone:
// it knows neither clock nor host, and nothing of Fairlead.
package oci

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Media types of OCI and of what is stored in it.
const (
	MediaIndex    = "application/vnd.oci.image.index.v1+json"
	MediaManifest = "application/vnd.oci.image.manifest.v1+json"
	MediaConfig   = "application/vnd.oci.image.config.v1+json"
	MediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
	MediaEmpty    = "application/vnd.oci.empty.v1+json"
)

// refName is the annotation of a layout's index with the tag of a manifest.
const refName = "org.opencontainers.image.ref.name"

// Descriptor names a blob by its content.
type Descriptor struct {
	MediaType    string            `json:"mediaType"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	Platform     *Platform         `json:"platform,omitempty"`
}

// Platform is what an image runs on.
type Platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// Manifest is an image of one platform, or an artifact.
type Manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        Descriptor        `json:"config"`
	Layers        []Descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// Index has images of several platforms, or all manifests of a layout.
type Index struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []Descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// Layout is a directory in the format "OCI image layout".
type Layout struct{ dir string }

// NewLayout makes an empty layout.
func NewLayout(dir string) (Layout, error) {
	l := Layout{dir}
	for _, path := range []string{dir, filepath.Join(dir, "blobs"), filepath.Join(dir, "blobs", "sha256")} {
		if err := MakeDir(path); err != nil {
			return l, err
		}
	}
	return l, WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
}

// OpenLayout opens a layout that was written before.
func OpenLayout(dir string) Layout { return Layout{dir} }

// MakeDir makes a directory that everybody may read, whatever the umask.
func MakeDir(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return os.Chmod(path, 0o755)
}

// WriteFile writes a file that everybody may read, whatever the umask.
func WriteFile(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return err
	}
	return os.Chmod(path, 0o644)
}

// Digest is the name of content.
func Digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// Add stores a blob.
func (l Layout) Add(mediaType string, content []byte) (Descriptor, error) {
	d := Descriptor{MediaType: mediaType, Digest: Digest(content), Size: int64(len(content))}
	return d, WriteFile(l.path(d), content)
}

// AddJSON stores a value as a blob.
func (l Layout) AddJSON(mediaType string, value any) (Descriptor, error) {
	content, err := encode(value)
	if err != nil {
		return Descriptor{}, err
	}
	return l.Add(mediaType, content)
}

// Tag makes the layout's index list a manifest under a name. A name that is there
// already gets the new one.
func (l Layout) Tag(d Descriptor, name string) error {
	index, err := l.index()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d.Annotations = map[string]string{refName: name}
	manifests := []Descriptor{d}
	for _, other := range index.Manifests {
		if other.Annotations[refName] != name {
			manifests = append(manifests, other)
		}
	}
	content, err := encode(Index{SchemaVersion: 2, MediaType: MediaIndex, Manifests: manifests})
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(l.dir, "index.json"), content)
}

// Tags returns the manifests that the layout's index lists, by name.
func (l Layout) Tags() (map[string]Descriptor, error) {
	index, err := l.index()
	if err != nil {
		return nil, err
	}
	tags := map[string]Descriptor{}
	for _, d := range index.Manifests {
		name := d.Annotations[refName]
		d.Annotations = nil
		tags[name] = d
	}
	return tags, nil
}

// Blob reads a blob, and makes sure that it is the one that was stored.
func (l Layout) Blob(d Descriptor) ([]byte, error) {
	if !isDigest(d.Digest) {
		return nil, fmt.Errorf("%s: %q is not a digest", l.dir, d.Digest)
	}
	content, err := os.ReadFile(l.path(d))
	if err != nil {
		return nil, err
	}
	if got := Digest(content); got != d.Digest {
		return nil, fmt.Errorf("%s was changed: its digest is %s", l.path(d), got)
	}
	return content, nil
}

// Parts returns the blobs that a manifest or index needs, itself last.
func (l Layout) Parts(d Descriptor) ([]Descriptor, error) {
	content, err := l.Blob(d)
	if err != nil {
		return nil, err
	}
	var parts []Descriptor
	switch d.MediaType {
	case MediaIndex:
		var index Index
		if err := json.Unmarshal(content, &index); err != nil {
			return nil, fmt.Errorf("read %s: %w", l.path(d), err)
		}
		for _, m := range index.Manifests {
			below, err := l.Parts(m)
			if err != nil {
				return nil, err
			}
			parts = append(parts, below...)
		}
	case MediaManifest:
		var m Manifest
		if err := json.Unmarshal(content, &m); err != nil {
			return nil, fmt.Errorf("read %s: %w", l.path(d), err)
		}
		for _, blob := range append([]Descriptor{m.Config}, m.Layers...) {
			if _, err := l.Blob(blob); err != nil {
				return nil, err
			}
			parts = append(parts, blob)
		}
	}
	return append(parts, d), nil
}

func (l Layout) index() (Index, error) {
	var index Index
	content, err := os.ReadFile(filepath.Join(l.dir, "index.json"))
	if err != nil {
		return index, err
	}
	return index, json.Unmarshal(content, &index)
}

func (l Layout) path(d Descriptor) string {
	return filepath.Join(l.dir, "blobs", "sha256", strings.TrimPrefix(d.Digest, "sha256:"))
}

func isDigest(s string) bool {
	hex, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(hex) == 2*sha256.Size && strings.Trim(hex, "0123456789abcdef") == ""
}

// encode writes JSON as it is stored: compact, keys of maps sorted.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
