package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// repository is a checkout of Git.
type repository struct{ dir string }

func (r repository) git(ctx context.Context, args ...string) (string, error) {
	var stderr bytes.Buffer
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir, c.Stderr = r.dir, &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// findRepository is the checkout around a directory.
func findRepository(ctx context.Context, dir string) (repository, error) {
	root, err := repository{dir}.git(ctx, "rev-parse", "--show-toplevel")
	return repository{root}, err
}

// source is what a release is made of.
type source struct {
	branch, commit string
	time           time.Time // of the commit: files of the release have it
}

// resolve finds the commit of a branch, here or else on origin, as of the last fetch; "" is the
// branch that is checked out.
func (r repository) resolve(ctx context.Context, branch string) (source, error) {
	if branch == "" {
		var err error
		if branch, err = r.git(ctx, "symbolic-ref", "--quiet", "--short", "HEAD"); err != nil {
			return source{}, errors.New("no branch is checked out. Check one out, or name one with --ref")
		}
	}
	commit, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch+"^{commit}")
	if err != nil {
		commit, err = r.git(ctx, "rev-parse", "--verify", "--quiet", "refs/remotes/origin/"+branch+"^{commit}")
	}
	if err != nil {
		return source{}, fmt.Errorf("there is no branch %q, neither here nor on origin", branch)
	}
	text, err := r.git(ctx, "show", "--no-patch", "--format=%ct", commit)
	if err != nil {
		return source{}, err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("read the time of commit %s: %w", commit, err)
	}
	return source{branch, commit, time.Unix(seconds, 0).UTC()}, nil
}

// clean fails if a file of the checkout differs from its commit, or is not in it.
func (r repository) clean(ctx context.Context) error {
	changes, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		lines := strings.Split(changes, "\n")
		if len(lines) > 5 {
			lines = append(lines[:5], "…")
		}
		return fmt.Errorf("the checkout has changes that are not committed. Commit or remove them:\n  %s", strings.Join(lines, "\n  "))
	}
	return nil
}

func (r repository) tags(ctx context.Context) ([]string, error) {
	out, err := r.git(ctx, "tag", "--list", "v*")
	return strings.Fields(out), err
}

// tagged is the commit of a tag, or "" if there is no such tag.
func (r repository) tagged(ctx context.Context, tag string) (string, error) {
	found, err := r.git(ctx, "tag", "--list", tag)
	if err != nil || found == "" {
		return "", err
	}
	return r.git(ctx, "rev-parse", "--verify", "refs/tags/"+tag+"^{commit}")
}

// behind fails if the remote has another commit for a branch, as of the last fetch.
func (r repository) behind(ctx context.Context, s source) error {
	remote, err := r.git(ctx, "for-each-ref", "--format=%(objectname)", "refs/remotes/origin/"+s.branch)
	if err != nil {
		return err
	}
	if remote != "" && remote != s.commit {
		return fmt.Errorf("the branch %s is at %.12s, but at %.12s on origin. Pull or push first", s.branch, s.commit, remote)
	}
	return nil
}
