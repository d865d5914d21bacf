package oci_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.io/cmd/release/oci"
	"fairlead.io/test/kit/registry"
)

// An image of two platforms, in a layout.
func example(t *testing.T, text string) (oci.Layout, oci.Descriptor) {
	t.Helper()
	l, err := oci.NewLayout(filepath.Join(t.TempDir(), "layout"))
	if err != nil {
		t.Fatal(err)
	}
	var images []oci.Descriptor
	for _, arch := range []string{"amd64", "arm64"} {
		d, err := l.AddImage(oci.Image{Platform: oci.Platform{Architecture: arch, OS: "linux"}, Layer: []byte(text + arch), Created: time.Unix(1, 0)})
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, d)
	}
	root, err := l.AddIndex(images, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l, root
}

func TestPush(t *testing.T) {
	server := registry.Start(t, "me", "s3cret")
	r := &oci.Registry{Host: server.Host, User: "me", Password: "s3cret"}
	l, root := example(t, "one")
	if err := r.Push(t.Context(), l, root, "a/b", "1.0.0", true, t.Output()); err != nil {
		t.Fatal(err)
	}
	if writes := server.Writes(); len(writes) != 0 {
		t.Errorf("a dry run wrote %v", writes)
	}
	if err := r.Push(t.Context(), l, root, "a/b", "1.0.0", false, t.Output()); err != nil {
		t.Fatal(err)
	}
	writes := server.Writes()
	if len(writes) != 7 || writes[6] != "PUT a/b 1.0.0" || server.Digest("a/b", "1.0.0") != root.Digest {
		t.Errorf("it wrote %v; the tag must be last", writes)
	}
	if err := r.Push(t.Context(), l, root, "a/b", "1.0.0", false, t.Output()); err != nil || len(server.Writes()) != 0 {
		t.Errorf("a second push wrote something (%v)", err)
	}
	other, otherRoot := example(t, "two")
	if err := r.Push(t.Context(), other, otherRoot, "a/b", "1.0.0", false, t.Output()); !errors.Is(err, oci.ErrOther) || len(server.Writes()) != 0 {
		t.Errorf("a tag with other content: %v", err)
	}
}

// Whichever request fails, the tag is not there before all is, and the next push completes
// it without sending anything twice.
func TestPushAfterFailure(t *testing.T) {
	for failing := range 30 {
		server := registry.Start(t, "me", "s3cret")
		var seen int
		server.Fail = func(*http.Request) int {
			if seen++; seen == failing+1 {
				return http.StatusServiceUnavailable
			}
			return 0
		}
		r := &oci.Registry{Host: server.Host, User: "me", Password: "s3cret"}
		l, root := example(t, "one")
		err := r.Push(t.Context(), l, root, "a/b", "1.0.0", false, t.Output())
		if err == nil {
			if failing < 15 {
				t.Errorf("a push makes only %d requests", failing)
			}
			return
		}
		if strings.Contains(err.Error(), server.Token()) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error has a secret: %v", err)
		}
		if server.Digest("a/b", "1.0.0") != "" {
			t.Errorf("request %d failed, and the tag is there", failing)
		}
		first := server.Writes()
		if err := r.Push(t.Context(), l, root, "a/b", "1.0.0", false, t.Output()); err != nil {
			t.Fatal(err)
		}
		for _, w := range server.Writes() {
			if slices.Contains(first, w) {
				t.Errorf("request %d failed, and the next push repeats %s", failing, w)
			}
		}
	}
	t.Error("a push makes more than 30 requests")
}

func TestRefusals(t *testing.T) {
	server := registry.Start(t, "me", "s3cret")
	l, root := example(t, "one")
	for _, c := range []struct{ name, password, want string }{
		{"wrong password", "w0rds", `refuses the user "me"`},
		{"no password", "", "wants credentials"},
	} {
		r := &oci.Registry{Host: server.Host, User: "me", Password: c.password}
		err := r.Push(t.Context(), l, root, "a/b", "1.0.0", false, t.Output())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.password != "" && strings.Contains(err.Error(), c.password) {
			t.Errorf("%s: the error has the password: %v", c.name, err)
		}
	}
	if writes := server.Writes(); len(writes) != 0 {
		t.Errorf("it wrote %v", writes)
	}
}

// What was changed in a layout is not sent.
func TestChangedBlob(t *testing.T) {
	server := registry.Start(t, "me", "s3cret")
	r := &oci.Registry{Host: server.Host, User: "me", Password: "s3cret"}
	dir := filepath.Join(t.TempDir(), "layout")
	l, err := oci.NewLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.AddImage(oci.Image{Layer: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil || len(blobs) != 3 {
		t.Fatalf("%v (%v)", blobs, err)
	}
	for _, blob := range blobs {
		before, err := os.ReadFile(blob)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(blob, bytes.ToUpper(before), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := r.Push(t.Context(), l, d, "a/b", "1.0.0", false, t.Output()); err == nil || !strings.Contains(err.Error(), "was changed") {
			t.Errorf("%s: %v", blob, err)
		}
		if err := os.WriteFile(blob, before, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if writes := server.Writes(); len(writes) != 0 {
		t.Errorf("it wrote %v", writes)
	}
}
