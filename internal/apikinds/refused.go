package apikinds

import (
	"context"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"fairlead.io/internal/compat"
)

// resource is what is read of a kind: all objects, or the one of a name in a
// namespace.
type resource struct {
	schema.GroupVersionResource
	Namespace, Name string
}

// refused returns why r cannot be listed and watched, in the words of the API
// server, or "" if it can. It tries both, for that needs no other right, and is
// no write. It waits for an answer, and fails only if ctx ends before.
func refused(ctx context.Context, c rest.Interface, r resource) (why string, err error) {
	for {
		err := r.try(ctx, c)
		switch {
		case err == nil:
			return "", nil
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			return err.Error(), nil
		}
		if err := wait(ctx, pause); err != nil {
			return "", err
		}
	}
}

func resourceOf(k *compat.Kind) resource {
	plural, _ := meta.UnsafeGuessKindToResource(k.GroupVersionKind)
	if k.Resource != "" {
		plural.Resource = k.Resource
	}
	return resource{GroupVersionResource: plural, Namespace: k.Namespace, Name: k.Name}
}

func (r resource) try(ctx context.Context, c rest.Interface) error {
	if err := r.get(c).Param("limit", "1").Do(ctx).Error(); err != nil {
		return err
	}
	watch, err := r.get(c).Param("watch", "true").Param("timeoutSeconds", "1").Stream(ctx)
	if err != nil {
		return err
	}
	return watch.Close()
}

func (r resource) get(c rest.Interface) *rest.Request {
	at := path.Join("/apis", r.Group, r.Version)
	if r.Group == "" {
		at = path.Join("/api", r.Version)
	}
	if r.Namespace != "" {
		at = path.Join(at, "namespaces", r.Namespace)
	}
	// Any version will do: the API server need not ask etcd for the last one.
	get := c.Get().AbsPath(at, r.Resource).Param("resourceVersion", "0")
	if r.Name != "" {
		get = get.Param("fieldSelector", fields.OneTermEqualSelector("metadata.name", r.Name).String())
	}
	return get
}
