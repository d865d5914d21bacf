package sources

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/compat/metallb"
)

// routers is where MetalLB's objects about BGP, and the passwords of peers, are read. Each is
// nil until all of its objects have been read: a router that hears of a part of the routes
// forgets the others.
type routers struct {
	objects atomic.Pointer[bgpObjects]
	secrets atomic.Pointer[cache.Cache]
	// needed is closed when a peer names a Secret: before, nobody needs the right to read them.
	// tried is closed when they have been read, or were waited for long enough.
	needed, tried chan struct{}
	need, try     func()
	// former is what the objects meant when they were last read.
	former metallb.Former
}

// bgpObjects are where they are read, and in which versions.
type bgpObjects struct {
	client.Reader
	kinds []schema.GroupVersionKind
	// alone: Secrets are not read, and nothing is said about them.
	alone bool
}

// followBGP follows MetalLB's objects about BGP and, as soon as a peer names one, the Secrets
// beside them. It waits for the objects if the CRDs are installed. Without the right to read
// Secrets, only peers that name one have no session.
func (r *Reader) followBGP(ctx, background context.Context, running *sync.WaitGroup, changed func()) error {
	kinds, err := apikinds.New(r.o.REST, r.o.Log, metallb.BGPKinds()...)
	if err != nil {
		return err
	}
	served, err := kinds.Versions(ctx)
	if err != nil {
		return err
	}
	if served != nil {
		return r.readBGP(ctx, background, running, served, changed)
	}
	running.Go(func() {
		_ = kinds.WhenServed(background, "MetalLB's CRDs for BGP are installed, but their objects cannot be read; trying again", func() error {
			served, err := kinds.Versions(background)
			if err != nil {
				return err
			}
			return r.readBGP(background, background, running, served, changed)
		})
	})
	return nil
}

func (r *Reader) readBGP(ctx, background context.Context, running *sync.WaitGroup, kinds []schema.GroupVersionKind, changed func()) error {
	running.Go(func() {
		select {
		case <-background.Done():
			return
		case <-r.routers.needed:
		}
		if err := r.readSecrets(background, background, running, changed); err != nil && background.Err() == nil {
			r.o.Log.Error("Secrets with passwords of BGP peers cannot be read", "error", err)
		}
		r.routers.try()
	})
	patience, lost := context.WithTimeout(ctx, configMapPatience)
	defer lost()
	c, err := NamespaceCache(r.o.REST, r.o.MetalLBNamespace, r.o.Log, cache.Options{DefaultWatchErrorHandler: r.untilGranted("MetalLB's objects for BGP", lost)})
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(kind)
		if err := onSpecChange(ctx, c, o, changed); err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
	}
	running.Go(func() { _ = c.Start(background) })
	came := func(ctx context.Context) {
		r.awaitSecrets(ctx, c, kinds)
		r.routers.objects.Store(&bgpObjects{Reader: c, kinds: kinds})
		changed()
		r.o.Log.Info("reading MetalLB's objects for BGP", "namespace", r.o.MetalLBNamespace)
	}
	if c.WaitForCacheSync(patience) {
		came(ctx)
		return ctx.Err()
	}
	running.Go(func() {
		if c.WaitForCacheSync(background) {
			came(background)
		}
	})
	return ctx.Err()
}

// awaitSecrets waits for Secrets if a peer names one: a peer without its password has no session,
// and an earlier agent on this node may have left one.
func (r *Reader) awaitSecrets(ctx context.Context, from client.Reader, kinds []schema.GroupVersionKind) {
	for _, kind := range kinds {
		if kind.Kind != metallb.KindPeer {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := from.List(ctx, list); err != nil || !slices.ContainsFunc(list.Items, namesSecret) {
			continue
		}
		r.routers.need()
		select {
		case <-ctx.Done():
		case <-r.routers.tried:
		}
	}
}

// namesSecret says whether a peer's password is in a Secret.
func namesSecret(peer unstructured.Unstructured) bool {
	name, _, _ := unstructured.NestedString(peer.Object, "spec", "passwordSecret", "name")
	return name != ""
}

// readSecrets follows the Secrets with passwords of peers; of other types only the type is
// kept.
func (r *Reader) readSecrets(ctx, background context.Context, running *sync.WaitGroup, changed func()) error {
	patience, lost := context.WithTimeout(ctx, configMapPatience)
	defer lost()
	c, err := NamespaceCache(r.o.REST, r.o.MetalLBNamespace, r.o.Log, cache.Options{
		DefaultTransform:         slimSecret,
		DefaultWatchErrorHandler: r.untilGranted("Secrets with passwords of BGP peers", lost),
	})
	if err != nil {
		return err
	}
	if err := OnChange(ctx, c, &corev1.Secret{}, changed); err != nil {
		return fmt.Errorf("watch Secrets: %w", err)
	}
	running.Go(func() { _ = c.Start(background) })
	if c.WaitForCacheSync(patience) {
		r.routers.secrets.Store(&c)
		changed()
		return nil
	}
	running.Go(func() {
		if c.WaitForCacheSync(background) {
			r.routers.secrets.Store(&c)
			changed()
		}
	})
	return ctx.Err()
}

// untilGranted logs once that a right is missing, and calls lost.
func (r *Reader) untilGranted(what string, lost func()) toolscache.WatchErrorHandlerWithContext {
	var logged atomic.Bool
	return func(ctx context.Context, reflector *toolscache.Reflector, err error) {
		if !apierrors.IsForbidden(err) {
			toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
			return
		}
		lost()
		if !logged.Swap(true) {
			r.o.Log.Warn("no permission to read "+what+"; continuing without them until granted", "namespace", r.o.MetalLBNamespace, "error", err)
		}
	}
}

func slimSecret(in any) (any, error) {
	if s, ok := in.(*corev1.Secret); ok {
		s.ManagedFields, s.Annotations, s.Labels = nil, nil, nil
		for key := range s.Data {
			if key != metallb.SecretKey || string(s.Type) != metallb.SecretType {
				delete(s.Data, key)
			}
		}
	}
	return in, nil
}

// bgp returns MetalLB's objects about BGP as they are now; none before all have been read.
func (r *Reader) bgp(ctx context.Context) (metallb.BGP, error) {
	out := metallb.BGP{Former: r.routers.former, Secrets: map[string]metallb.Secret{}}
	objects := r.routers.objects.Load()
	if objects == nil {
		return out, nil
	}
	for _, kind := range objects.kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := objects.List(ctx, list); err != nil {
			return out, err
		}
		for i := range list.Items {
			out.Add(kind.Kind, &list.Items[i])
		}
	}
	if slices.ContainsFunc(out.Peers, namesSecret) {
		r.routers.need()
	}
	if c := r.routers.secrets.Load(); objects.alone {
		out.Secrets = nil
	} else if c == nil {
		out.SecretsUnread = "they were not read yet, or the agent has no right to (chart value metallb.peerSecrets)"
	} else {
		var secrets corev1.SecretList
		if err := (*c).List(ctx, &secrets); err != nil {
			return out, err
		}
		for i := range secrets.Items {
			out.Secrets[secrets.Items[i].Name] = metallb.Secret{Type: string(secrets.Items[i].Type), Data: secrets.Items[i].Data}
		}
	}
	var nodes corev1.NodeList
	if err := r.cluster.List(ctx, &nodes); err != nil {
		return out, err
	}
	for i := range nodes.Items {
		out.Nodes = append(out.Nodes, labels.Set(nodes.Items[i].Labels))
	}
	return out, nil
}
