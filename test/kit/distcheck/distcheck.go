// Package distcheck looks at releases that were built: whether two are equal, and what is in
// their images. It reads OCI layouts on its own, not with the code that wrote them.
package distcheck

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Differences are the files that are not the same in two directories, by content or mode.
func Differences(a, b string) ([]string, error) {
	first, err := list(a)
	if err != nil {
		return nil, err
	}
	second, err := list(b)
	if err != nil {
		return nil, err
	}
	var found []string
	for name, mode := range first {
		other, is := second[name]
		if !is {
			found = append(found, name+" is in one only")
			continue
		}
		if mode != other {
			found = append(found, fmt.Sprintf("%s has mode %s and %s", name, mode, other))
		}
		if mode.IsDir() {
			continue
		}
		x, err := os.ReadFile(filepath.Join(a, name))
		if err != nil {
			return nil, err
		}
		y, err := os.ReadFile(filepath.Join(b, name))
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(x, y) {
			found = append(found, name+" differs")
		}
	}
	for name := range second {
		if _, is := first[name]; !is {
			found = append(found, name+" is in the other only")
		}
	}
	if len(first) < 10 {
		found = append(found, fmt.Sprintf("there are only %d files", len(first)))
	}
	slices.Sort(found)
	return found, nil
}

// list has the modes of all files and directories, the directory itself excepted.
func list(dir string) (map[string]fs.FileMode, error) {
	found := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		found[name] = info.Mode()
		return err
	})
	return found, err
}

type descriptor struct {
	Digest      string
	Platform    struct{ Architecture string }
	Annotations map[string]string
}

// Config is how an image is run.
type Config struct {
	Architecture, OS string
	Config           struct {
		Entrypoint []string
		User       string
	}
}

// Unpack puts the files of an image of a layout into a directory, which it makes, as a
// runtime does.
func Unpack(layout, arch, dir string) (Config, error) {
	var config Config
	read := func(digest string, into any) error {
		content, err := os.ReadFile(filepath.Join(layout, "blobs", strings.ReplaceAll(digest, ":", "/")))
		if err == nil {
			err = json.Unmarshal(content, into)
		}
		return err
	}
	var top, index struct{ Manifests []descriptor }
	content, err := os.ReadFile(filepath.Join(layout, "index.json"))
	if err != nil {
		return config, err
	}
	if err := json.Unmarshal(content, &top); err != nil || len(top.Manifests) != 1 {
		return config, errors.Join(fmt.Errorf("index.json has %d manifests", len(top.Manifests)), err)
	}
	if err := read(top.Manifests[0].Digest, &index); err != nil {
		return config, err
	}
	for _, d := range index.Manifests {
		if d.Platform.Architecture != arch {
			continue
		}
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		if err := read(d.Digest, &manifest); err != nil {
			return config, err
		}
		if err := read(manifest.Config.Digest, &config); err != nil {
			return config, err
		}
		for _, layer := range manifest.Layers {
			if err := untar(filepath.Join(layout, "blobs", strings.ReplaceAll(layer.Digest, ":", "/")), dir); err != nil {
				return config, err
			}
		}
		return config, nil
	}
	return config, fmt.Errorf("%s has no image for %s", layout, arch)
}

func untar(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, content, 0o600)
			}
		}
		if err != nil {
			return err
		}
		if err := os.Chmod(path, h.FileInfo().Mode()); err != nil {
			return err
		}
	}
}

// Command runs an image that was unpacked, alone in its files and as the user that it
// names. It needs root.
func Command(ctx context.Context, dir string, config Config, args ...string) (*exec.Cmd, error) {
	var user, group uint32
	if _, err := fmt.Sscanf(config.Config.User, "%d:%d", &user, &group); err != nil || len(config.Config.Entrypoint) != 1 {
		return nil, fmt.Errorf("the image has the user %q and the entry point %q", config.Config.User, config.Config.Entrypoint)
	}
	c := exec.CommandContext(ctx, config.Config.Entrypoint[0], args...)
	c.Dir, c.Env = "/", []string{}
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: user, Gid: group}}
	return c, nil
}
