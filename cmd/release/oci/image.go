package oci

import (
	"bytes"
	"compress/gzip"
	"time"
)

// Image is a container image of one platform, with one layer.
type Image struct {
	Platform    Platform
	Layer       []byte // a tar archive
	Entrypoint  []string
	User        string
	Created     time.Time
	Annotations map[string]string // also labels of its configuration
}

// AddImage stores an image and returns its manifest.
func (l Layout) AddImage(i Image) (Descriptor, error) {
	zipped, err := Gzip(i.Layer)
	if err != nil {
		return Descriptor{}, err
	}
	layer, err := l.Add(MediaLayer, zipped)
	if err != nil {
		return Descriptor{}, err
	}
	type rootfs struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	type runConfig struct {
		User       string            `json:",omitempty"`
		Entrypoint []string          `json:",omitempty"`
		WorkingDir string            `json:",omitempty"`
		Labels     map[string]string `json:",omitempty"`
	}
	config, err := l.AddJSON(MediaConfig, struct {
		Created time.Time `json:"created"`
		Platform
		Config runConfig `json:"config"`
		RootFS rootfs    `json:"rootfs"`
	}{i.Created.UTC(), i.Platform, runConfig{i.User, i.Entrypoint, "/", i.Annotations}, rootfs{"layers", []string{Digest(i.Layer)}}})
	if err != nil {
		return Descriptor{}, err
	}
	d, err := l.AddJSON(MediaManifest, Manifest{SchemaVersion: 2, MediaType: MediaManifest, Config: config, Layers: []Descriptor{layer}, Annotations: i.Annotations})
	d.Platform = &i.Platform
	return d, err
}

// AddIndex stores images of several platforms under one digest.
func (l Layout) AddIndex(images []Descriptor, annotations map[string]string) (Descriptor, error) {
	return l.AddJSON(MediaIndex, Index{SchemaVersion: 2, MediaType: MediaIndex, Manifests: images, Annotations: annotations})
}

// AddArtifact stores what is no image: blobs that are in the layout, under a type.
func (l Layout) AddArtifact(artifactType string, blobs []Descriptor, annotations map[string]string) (Descriptor, error) {
	config, err := l.Add(MediaEmpty, []byte("{}"))
	if err != nil {
		return Descriptor{}, err
	}
	return l.AddJSON(MediaManifest, Manifest{SchemaVersion: 2, MediaType: MediaManifest, ArtifactType: artifactType, Config: config, Layers: blobs, Annotations: annotations})
}

// Gzip compresses without a name or a time.
func Gzip(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
