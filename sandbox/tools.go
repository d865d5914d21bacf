package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// The images that every cluster has.
const (
	pauseImage = "fairlead/pause:dev"
	// WebImage answers HTTP and UDP on port 8080 with the pod's name, its node
	// (if the environment variable NODE_NAME tells) and the client's address.
	// "/guest get URL" inside it fetches something.
	WebImage = "fairlead/web:dev"
)

// installTools puts the programs of the sandbox into its directory, so that
// they stay when the caches and checkouts they come from go.
func (c *Cluster) installTools(ctx context.Context, kube string) error {
	if err := os.MkdirAll(c.path("bin"), 0o755); err != nil {
		return fmt.Errorf("make directory for programs: %w", err)
	}
	if err := place(kube, c.path("bin", "kube")); err != nil {
		return err
	}
	// Called by this name, the binary is kubectl.
	if err := os.Symlink("kube", c.path("bin", "kubectl")); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("link kubectl: %w", err)
	}
	if c.Command != "" {
		return place(c.Command, c.path("bin", "sandbox"))
	}
	return goBuild(ctx, "cmd/sandbox", c.path("bin", "sandbox"))
}

// makeImages makes the images that every node gets.
func (c *Cluster) makeImages(ctx context.Context) error {
	if err := os.MkdirAll(c.path("images"), 0o755); err != nil {
		return fmt.Errorf("make directory for images: %w", err)
	}
	guest := c.path("bin", "guest")
	if err := goBuild(ctx, "sandbox/guest", guest); err != nil {
		return err
	}
	files := []ImageFile{{Path: "/guest", Source: guest}}
	for name, image := range map[string]Image{
		"pause.tar": {Ref: pauseImage, Entrypoint: []string{"/guest", "pause"}, Files: files},
		"web.tar":   {Ref: WebImage, Entrypoint: []string{"/guest", "web"}, User: "65532:65532", Files: files},
	} {
		if err := image.WriteFile(c.path("images", name)); err != nil {
			return err
		}
	}
	if c.Network == OVN {
		return c.makeCentralImage(ctx)
	}
	return nil
}

// goBuild builds a command of this module, static.
func goBuild(ctx context.Context, dir, output string) error {
	kube, err := kubeSource()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", output, "./"+dir)
	cmd.Dir = filepath.Dir(kube)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", dir, err, text)
	}
	return nil
}

// place makes target the same file as source, or a copy if it is on another
// file system. A target that runs is replaced, not overwritten.
func place(source, target string) error {
	unfinished := target + ".new"
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("place %s: %w", target, err)
	}
	if err := os.Link(source, unfinished); err != nil {
		if err := copyFile(source, unfinished); err != nil {
			return fmt.Errorf("place %s: %w", target, err)
		}
	}
	if err := os.Rename(unfinished, target); err != nil {
		return fmt.Errorf("place %s: %w", target, err)
	}
	// Two names of one file: rename has done nothing.
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("place %s: %w", target, err)
	}
	return nil
}

func copyFile(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// InstallKube makes sure that Kubernetes is built and puts it into dir as
// "kube" and "kubectl".
func InstallKube(ctx context.Context, dir string, progress io.Writer) error {
	path, err := KubeBinary(ctx, progress)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	// A copy: what happens to it must not happen to the cache.
	unfinished := filepath.Join(dir, fmt.Sprintf("kube.%d", os.Getpid()))
	defer os.Remove(unfinished)
	if err := copyFile(path, unfinished); err != nil {
		return fmt.Errorf("copy kube: %w", err)
	}
	if err := os.Rename(unfinished, filepath.Join(dir, "kube")); err != nil {
		return fmt.Errorf("copy kube: %w", err)
	}
	if err := os.Symlink("kube", filepath.Join(dir, "kubectl")); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("link kubectl: %w", err)
	}
	return nil
}
