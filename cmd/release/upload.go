package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"fairlead.io/cmd/release/oci"
)

// upload sends a release to its registry and tags its commit. Nothing is sent before all
// checks have passed; what failed in between can be repeated. A dry run only reads.
func upload(ctx context.Context, repo repository, dist string, dry bool, getenv func(string) string, log io.Writer) error {
	dir, remove, err := scratch()
	if err != nil {
		return err
	}
	defer remove()
	b, err := openDist(dist, dir)
	if err != nil {
		return err
	}
	if b.Tested != defaultTests && !dry {
		return fmt.Errorf("this release was tested with %q, not with %q. It is not uploaded", b.Tested, defaultTests)
	}
	tag := "v" + b.Version
	there, err := repo.tagged(ctx, tag)
	if err != nil {
		return err
	}
	if there != "" && there != b.Commit {
		return fmt.Errorf("the tag %s exists, and names the commit %.12s. The release in %s is of %.12s", tag, there, dist, b.Commit)
	}
	host, _ := b.Image.split()
	registry := &oci.Registry{Host: host, User: getenv("FAIRLEAD_REGISTRY_USER"), Password: getenv("FAIRLEAD_REGISTRY_PASSWORD")}
	if registry.User == "" || registry.Password == "" {
		return fmt.Errorf("FAIRLEAD_REGISTRY_USER and FAIRLEAD_REGISTRY_PASSWORD are not both set. Set them to a user who may write to %s", b.Registry)
	}
	parts, err := b.withSignatures()
	if err != nil {
		return err
	}
	if err := admit(ctx, registry, parts); err != nil {
		return err
	}
	if len(parts) == len(b.parts) {
		fmt.Fprintln(log, "The release is not signed")
	}
	for _, p := range parts {
		_, repository := p.split()
		if err := registry.Push(ctx, p.layout, p.root, repository, p.tag, dry, log); err != nil {
			return fmt.Errorf("%w. The upload is not complete; run it again", err)
		}
	}
	if dry {
		fmt.Fprintf(log, "Would tag commit %.12s as %s. Nothing was uploaded\n", b.Commit, tag)
		return nil
	}
	if there == "" {
		if _, err := repo.git(ctx, "tag", "--annotate", "--message", "Fairlead "+b.Version, tag, b.Commit); err != nil {
			return fmt.Errorf("everything is uploaded, but not tagged: %w", err)
		}
	}
	fmt.Fprintf(log, "Uploaded %s. Next: git push origin %s, then publish the files in %s at %s\n", b.Version, tag, filepath.Join(dist, filesDir), b.Downloads)
	return nil
}

// withSignatures are the parts in the order of upload: the chart, which people install, is
// last.
func (b built) withSignatures() ([]part, error) {
	layout := oci.OpenLayout(filepath.Join(b.dist, signaturesDir))
	signatures, err := layout.Tags()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []part
	for _, p := range b.parts {
		if d, signed := signatures[p.Digest]; signed {
			all = append(all, part{p.artifact, strings.Replace(p.Digest, ":", "-", 1) + ".sig", layout, d})
		} else if len(signatures) > 0 {
			return nil, fmt.Errorf("the signatures in %s are of another release. Run \"helpers/release sign\" again", filepath.Join(b.dist, signaturesDir))
		}
		all = append(all, p)
	}
	return all, nil
}

// admit fails if the registry does not accept the credentials, or has one of the tags with
// other content.
func admit(ctx context.Context, registry *oci.Registry, parts []part) error {
	for _, p := range parts {
		_, repository := p.split()
		if err := registry.Login(ctx, repository); err != nil {
			return err
		}
		there, err := registry.Resolve(ctx, repository, p.tag)
		if err != nil {
			return err
		}
		if there != "" && there != p.root.Digest {
			return fmt.Errorf("%s:%s: %w (%s, not %s). A published version is never replaced; create another one", p.Name, p.tag, oci.ErrOther, there, p.root.Digest)
		}
	}
	return nil
}
