package oci

import (
	"context"
	"fmt"
	"io"
)

// Push uploads a manifest of a layout with everything it needs, the tag last: a tag
// never names something incomplete. What the registry has already is not sent again, so
// a push that failed can be repeated. A tag with other content is not replaced. A dry
// run only reads.
func (r *Registry) Push(ctx context.Context, l Layout, d Descriptor, repository, tag string, dry bool, log io.Writer) error {
	name := r.Host + "/" + repository + ":" + tag
	parts, err := l.Parts(d)
	if err != nil {
		return err
	}
	there, err := r.Resolve(ctx, repository, tag)
	switch {
	case err != nil:
		return err
	case there == d.Digest:
		fmt.Fprintf(log, "%s is already there\n", name)
		return nil
	case there != "":
		return fmt.Errorf("%s: %w (%s, not %s). A published version is never replaced", name, ErrOther, there, d.Digest)
	}
	verb := "Upload"
	if dry {
		verb = "Would upload"
	}
	sent := map[string]bool{}
	for _, part := range parts {
		if sent[part.Digest] || part.Digest == d.Digest {
			continue
		}
		sent[part.Digest] = true
		has, err := r.Has(ctx, repository, part)
		if err != nil {
			return err
		}
		if has {
			continue
		}
		fmt.Fprintf(log, "%s %s (%d bytes)\n", verb, part.Digest, part.Size)
		if dry {
			continue
		}
		content, err := l.Blob(part)
		if err != nil {
			return err
		}
		if part.MediaType == MediaManifest || part.MediaType == MediaIndex {
			err = r.PutManifest(ctx, repository, part.Digest, part, content)
		} else {
			err = r.PutBlob(ctx, repository, part, content)
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(log, "%s %s@%s\n", verb, name, d.Digest)
	if dry {
		return nil
	}
	content, err := l.Blob(d)
	if err != nil {
		return err
	}
	return r.PutManifest(ctx, repository, tag, d, content)
}
