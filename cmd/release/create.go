package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"fairlead.io/cmd/release/oci"
	"fairlead.io/deploy"
)

// mainBranch is the one that real releases are made from.
const mainBranch = "main"

// defaultTests is the command that has to pass before a release is built.
const defaultTests = "make test"

// creation is what "create" was asked for.
type creation struct {
	part  string // patch, minor or major
	pre   bool
	ref   string // a branch; "" is main, and for a pre-release the one that is checked out
	tests string
	dist  string
	log   io.Writer
}

// create tests a commit and builds a release of it. Whatever fails, the directory has the
// last complete release or none.
func create(ctx context.Context, repo repository, c creation, getenv func(string) string) error {
	if err := repo.clean(ctx); err != nil {
		return err
	}
	if c.ref == "" && !c.pre {
		c.ref = mainBranch
	}
	from, err := repo.resolve(ctx, c.ref)
	if err != nil {
		return err
	}
	v, err := c.version(ctx, repo, from)
	if err != nil {
		return err
	}
	head, err := repo.git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if head != from.commit {
		return c.elsewhere(ctx, repo, from)
	}
	changes, err := checkTree(repo, v)
	if err != nil {
		return err
	}
	if err := c.checkDist(); err != nil {
		return err
	}
	r := release{Version: v.String(), Commit: from.commit, Branch: from.branch, Time: from.time, Tested: c.tests}
	if r.Registry, r.Downloads, err = destination(getenv); err != nil {
		return err
	}
	r.Downloads += "/" + v.tag()
	r.names()

	fmt.Fprintf(c.log, "Test %s, commit %.12s of %s: %s\n", v, from.commit, from.branch, c.tests)
	if err := c.test(ctx, repo); err != nil {
		return err
	}
	if err := repo.clean(ctx); err != nil {
		return fmt.Errorf("after the tests, %w", err)
	}
	if now, err := repo.git(ctx, "rev-parse", "HEAD"); err != nil || now != head {
		return errors.Join(errors.New("another commit was checked out during the tests. Run this again"), err)
	}
	return c.replaceDist(func(dist string) error { return assemble(ctx, repo, r, v, changes, dist, c.log) })
}

// version decides about the version, and whether it may be made from there.
func (c creation) version(ctx context.Context, repo repository, from source) (version, error) {
	if !c.pre && from.branch != mainBranch {
		return version{}, fmt.Errorf("releases are made from the branch %s only, and this is %s. Use --pre for a pre-release", mainBranch, from.branch)
	}
	if !c.pre {
		if err := repo.behind(ctx, from); err != nil {
			return version{}, err
		}
	}
	tags, err := repo.tags(ctx)
	if err != nil {
		return version{}, err
	}
	v, err := next(versionsOf(tags), c.part, c.pre)
	if err != nil {
		return version{}, err
	}
	here, err := repo.git(ctx, "tag", "--points-at", from.commit, "--list", "v*")
	if err != nil {
		return version{}, err
	}
	for _, other := range versionsOf(strings.Fields(here)) {
		if c.pre || other.pre == 0 {
			return version{}, fmt.Errorf("this commit is released already: it has the tag %s", other.tag())
		}
	}
	return v, nil
}

// checkTree reads what the checkout says of a version.
func checkTree(repo repository, v version) (entry, error) {
	changelog, err := os.ReadFile(filepath.Join(repo.dir, "CHANGELOG.md"))
	if err != nil {
		return entry{}, err
	}
	changes, err := changesOf(string(changelog), v)
	if err != nil {
		return entry{}, err
	}
	meta, err := os.ReadFile(filepath.Join(repo.dir, deploy.Chart, "Chart.yaml"))
	if err != nil {
		return entry{}, err
	}
	has, err := chartVersion(meta)
	if err != nil {
		return entry{}, err
	}
	if v.pre == 0 && has != v.String() {
		return entry{}, fmt.Errorf("%s/Chart.yaml has version %s. Set version and appVersion to %s, run \"make generate\", and commit", deploy.Chart, has, v)
	}
	return changes, nil
}

// test runs the tests in the checkout.
func (c creation) test(ctx context.Context, repo repository) error {
	cmd := exec.CommandContext(ctx, "bash", "-c", c.tests)
	cmd.Dir, cmd.Stdout, cmd.Stderr = repo.dir, c.log, c.log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // tests remove their cluster
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the tests failed, nothing was built: %s: %w", c.tests, err)
	}
	return nil
}

// elsewhere creates the release of a branch that is not checked out here, in a checkout of
// its own and with its own program: the same commit gives the same release everywhere.
func (c creation) elsewhere(ctx context.Context, repo repository, from source) (err error) {
	dir, remove, err := scratch()
	if err != nil {
		return err
	}
	defer remove()
	tree := filepath.Join(dir, "tree")
	if _, err := repo.git(ctx, "worktree", "add", "--detach", tree, from.commit); err != nil {
		return err
	}
	defer func() {
		_, gone := repo.git(context.WithoutCancel(ctx), "worktree", "remove", "--force", tree)
		err = errors.Join(err, gone)
	}()
	args := []string{"create", c.part, "--ref", from.branch, "--dist", c.dist, "--test-command", c.tests}
	if c.pre {
		args = append(args, "--pre")
	}
	fmt.Fprintf(c.log, "Check out %s in %s\n", from.branch, tree)
	cmd := exec.CommandContext(ctx, filepath.Join(tree, "helpers", "release"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = tree, c.log, c.log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * time.Minute
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("create the release of %s in a checkout of its own: %w", from.branch, err)
	}
	return nil
}

// checkDist fails if something else is where the release belongs.
func (c creation) checkDist() error {
	if _, err := os.Stat(filepath.Join(c.dist, releaseFile)); err == nil {
		return nil
	}
	entries, err := os.ReadDir(c.dist)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s has files that are not a release. Remove it first", c.dist)
	}
	return nil
}

// replaceDist has a release made beside its directory, and puts it there when it is
// complete.
func (c creation) replaceDist(build func(dist string) error) error {
	fresh, err := os.MkdirTemp(filepath.Dir(c.dist), ".release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(fresh) }() // it is empty, or an error was returned
	made := filepath.Join(fresh, "dist")
	if err := oci.MakeDir(made); err != nil {
		return err
	}
	if err := build(made); err != nil {
		return err
	}
	if err := os.Rename(c.dist, filepath.Join(fresh, "old")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(made, c.dist); err != nil {
		return err
	}
	fmt.Fprintf(c.log, "Wrote %s. Next: helpers/release sign, then helpers/release upload --dry-run\n", c.dist)
	return nil
}
