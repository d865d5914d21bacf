// Command reproduce builds a release of the commit that is checked out twice, in different
// surroundings and the second time with an empty build cache, compares every byte, and starts
// the images: natively, and with QEMU for the other architecture. It needs root, minutes and
// a few gigabytes; "make reproduce" runs it. The same with small programs is in the tests of
// cmd/release.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	"fairlead.io/test/kit/distcheck"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fresh := flag.Bool("fresh", true, "build the second release with an empty build cache; false is faster, and proves less")
	flag.Parse()
	if err := run(ctx, *fresh); err != nil {
		fmt.Fprintln(os.Stderr, "reproduce:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, fresh bool) error {
	dir, err := os.MkdirTemp("", "fairlead-reproduce-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	first, second := filepath.Join(dir, "a"), filepath.Join(dir, "another", "directory")
	other := []string{"TZ=Pacific/Kiritimati", "GOFLAGS=-tags=other", "SOURCE_DATE_EPOCH=1"}
	if fresh { // the compiler and the linker run again for every package
		other = append(other, "GOCACHE="+filepath.Join(dir, "cache"))
	}
	for _, surroundings := range []struct {
		dir, umask string
		env        []string
	}{
		{first, "022", []string{"TZ=UTC"}},
		{second, "077", other},
	} {
		fmt.Println("Build a release in", surroundings.dir)
		if err := build(ctx, surroundings.dir, surroundings.umask, surroundings.env); err != nil {
			return err
		}
	}
	differences, err := distcheck.Differences(filepath.Join(first, "dist"), filepath.Join(second, "dist"))
	if err != nil {
		return err
	}
	if len(differences) > 0 {
		return fmt.Errorf("the two builds differ:\n%s", strings.Join(differences, "\n"))
	}
	fmt.Println("Both are equal")
	return errors.Join(start(ctx, dir, first, "amd64"), start(ctx, dir, first, "arm64"))
}

// build makes a clone and a pre-release of it. Tests are not what this is about.
func build(ctx context.Context, dir, umask string, env []string) error {
	commands := []string{"git clone --quiet --shared . " + dir, "cd " + dir, "git checkout --quiet -B reproduce", "umask " + umask, strings.Join(env, " ") +
		" FAIRLEAD_REGISTRY=registry.example/fairlead FAIRLEAD_DOWNLOADS=https://downloads.example helpers/release create minor --pre --test-command true"}
	c := exec.CommandContext(ctx, "bash", "-c", strings.Join(commands, " && "))
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}

// start runs an image, alone in its files and as its user: with the host's own processor,
// or under QEMU, which is put beside it.
func start(ctx context.Context, dir, tree, arch string) error {
	root := filepath.Join(dir, "root-"+arch)
	config, err := distcheck.Unpack(filepath.Join(tree, "dist", "image"), arch, root)
	if err != nil {
		return err
	}
	args := []string{"--version"}
	if arch != runtime.GOARCH {
		emulator := map[string]string{"arm64": "qemu-aarch64-static", "amd64": "qemu-x86_64-static"}[arch]
		path, err := exec.LookPath(emulator)
		if err != nil {
			return fmt.Errorf("install the package qemu-user-static: %w", err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, emulator), content, 0o755); err != nil {
			return err
		}
		args = append(config.Config.Entrypoint, args...)
		config.Config.Entrypoint = []string{"/" + emulator}
	}
	c, err := distcheck.Command(ctx, root, config, args...)
	if err != nil {
		return err
	}
	out, err := c.CombinedOutput()
	if err == nil && !strings.Contains(string(out), "-rc.") {
		err = errors.New("it prints no version of a pre-release")
	}
	if err != nil {
		return fmt.Errorf("start the image for %s: %w\n%s", arch, err, out)
	}
	fmt.Printf("The image for %s starts: %s\n", arch, strings.TrimSpace(string(out)))
	return nil
}
