package apikinds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/compat"
)

const (
	// lookPeriod is how often Start asks whether more kinds can be read, with as
	// much again at random.
	lookPeriod = 2 * time.Second
	// maxSync is how long the first list of a kind may take.
	maxSync = time.Minute
)

// Set is some kinds that the API server may not serve, or that we may not be allowed
// to read.
type Set struct {
	// Cache with which Look watches kinds. WhenServed needs none.
	Cache cache.Cache

	all       []compat.Kind
	discovery discoverer
	rest      rest.Interface
	log       *slog.Logger

	mu sync.Mutex
	// watched kinds; all but those of the first look have been listed.
	watched map[schema.GroupVersionKind]cache.Informer
	// refused says why others are not; "" is that they are not there.
	refused   map[schema.GroupVersionKind]string
	followers map[schema.GroupVersionKind][]Follower
	// told has, for each watched kind, whether its followers know all objects.
	told map[schema.GroupVersionKind][]toolscache.DoneChecker
}

// Follower is called when a kind has come, and when its objects change; nil is an
// object that was not there before, or is not there after.
type Follower struct {
	Came    func()
	Changed func(before, after client.Object)
}

// New returns a set of kinds of the API server that c is for.
func New(c *rest.Config, log *slog.Logger, all ...compat.Kind) (*Set, error) {
	d, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &Set{
		all: all, discovery: d, rest: d.RESTClient(), log: log,
		watched: map[schema.GroupVersionKind]cache.Informer{}, refused: map[schema.GroupVersionKind]string{},
		followers: map[schema.GroupVersionKind][]Follower{}, told: map[schema.GroupVersionKind][]toolscache.DoneChecker{},
	}, nil
}

// Served says whether the API server serves all kinds of the set, each in one of its
// versions. It waits for an answer, and fails only if ctx ends before.
func (s *Set) Served(ctx context.Context) (bool, error) {
	kinds, err := s.Versions(ctx)
	return kinds != nil, err
}

// Versions returns the kinds of the set in the versions that are to be read: one that stands
// in for another only if that is not served. It returns none if one is missing, and fails
// only if ctx ends before the API server has answered.
func (s *Set) Versions(ctx context.Context) (out []schema.GroupVersionKind, err error) {
	asked := newOnceEach(s.discovery)
	for _, k := range s.all {
		if !k.Unless.Empty() {
			continue
		}
		versions := []schema.GroupVersionKind{k.GroupVersionKind}
		for _, other := range s.all {
			if other.Unless == k.GroupVersionKind {
				versions = append(versions, other.GroupVersionKind)
			}
		}
		var there bool
		for _, kind := range versions {
			if there, err = present(ctx, asked, kind); err != nil {
				return nil, err
			}
			if there {
				out = append(out, kind)
				break
			}
		}
		if !there {
			return nil, nil
		}
	}
	return out, nil
}

// await returns once the API server serves all kinds of the set. It fails only if ctx
// ends before.
func (s *Set) await(ctx context.Context) error {
	for {
		there, err := s.Served(ctx)
		if there || err != nil {
			return err
		}
		if err := wait(ctx, period+rand.N(period)); err != nil {
			return err
		}
	}
}

// WhenServed calls begin as soon as the API server serves all kinds of the set. If
// begin fails, it logs that with the message failed, and tries again. It returns an
// error only if ctx ends before begin has succeeded.
func (s *Set) WhenServed(ctx context.Context, failed string, begin func() error) error {
	for {
		if err := s.await(ctx); err != nil {
			return err
		}
		err := begin()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			s.log.Warn(failed, "error", err)
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

// Look begins to watch the kinds that have come. It waits for the API server: one
// that is away does not say that there are none. A kind about which it says nothing delays
// no other one.
func (s *Set) Look(ctx context.Context) (err error) {
	asked := newOnceEach(s.discovery)
	seen := make(chan sight, len(s.all))
	for _, k := range s.all {
		go func() { seen <- s.see(ctx, asked, k) }()
	}
	for range s.all {
		switch f := <-seen; {
		case f.err != nil:
			err = errors.Join(err, f.err)
		case f.known:
		case !f.there:
			s.miss(f.kind, f.why)
		default:
			err = errors.Join(err, s.watch(ctx, f.kind))
		}
	}
	return err
}

// sight is what the API server says about a kind: that it can be read, or why it cannot,
// where it is served.
type sight struct {
	kind         compat.Kind
	known, there bool // known: it was watched already
	why          string
	err          error
}

func (s *Set) see(ctx context.Context, asked *onceEach, k compat.Kind) sight {
	if s.Has(k.GroupVersionKind) {
		return sight{kind: k, known: true}
	}
	if k.Group != "" {
		if there, err := present(ctx, asked, k.GroupVersionKind); err != nil || !there {
			return sight{kind: k, err: err}
		}
	}
	if !k.Unless.Empty() {
		if newer, err := present(ctx, asked, k.Unless); err != nil || newer {
			return sight{kind: k, err: err}
		}
	}
	why, err := refused(ctx, s.rest, resourceOf(&k))
	return sight{kind: k, there: why == "", why: why, err: err}
}

func (s *Set) watch(ctx context.Context, k compat.Kind) error {
	ctx, cancel := context.WithTimeout(ctx, maxSync)
	defer cancel()
	informer, err := s.Cache.GetInformer(ctx, k.Object)
	if meta.IsNoMatchError(err) {
		return nil // gone again
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", k.Kind, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched[k.GroupVersionKind] = informer
	delete(s.refused, k.GroupVersionKind)
	for _, f := range s.followers[k.GroupVersionKind] {
		if err := s.follow(k.GroupVersionKind, f, informer); err != nil {
			s.log.Error("kind not watched", "kind", k.Kind, "error", err)
		}
	}
	s.log.Info("watching", "kind", k.Kind, "of", k.Group)
	return nil
}

// miss notes that k cannot be read, and tells that once.
func (s *Set) miss(k compat.Kind, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if had, known := s.refused[k.GroupVersionKind]; known && had == why {
		return
	}
	s.refused[k.GroupVersionKind] = why
	if k.Without != "" || why != "" {
		reason, _ := s.lacking(k.GroupVersionKind)
		s.log.Warn("going on without a kind", "kind", k.Kind, "so", k.Without, "error", reason)
	}
}

// NeedLeaderElection is false: all replicas know what there is.
func (s *Set) NeedLeaderElection() bool { return false }

// Start looks for more kinds until ctx ends or all are there.
func (s *Set) Start(ctx context.Context) error {
	for {
		if s.complete() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookPeriod + rand.N(lookPeriod)):
		}
		if err := s.Look(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("kinds not watched; trying again", "error", err)
		}
	}
}

// complete says whether all kinds are watched, or other versions of them.
func (s *Set) complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(s.all, func(k compat.Kind) bool {
		return s.watched[k.GroupVersionKind] == nil && s.watched[k.Unless] == nil
	})
}

// Follow calls f for a kind from now on, or from when it comes.
func (s *Set) Follow(kind schema.GroupVersionKind, f Follower) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers[kind] = append(s.followers[kind], f)
	if informer := s.watched[kind]; informer != nil {
		return s.follow(kind, f, informer)
	}
	return nil
}

// Told says for the followers of a kind whether they have been called for all its objects.
// For a kind that is not watched there are none.
func (s *Set) Told(kind schema.GroupVersionKind) []toolscache.DoneChecker {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told[kind])
}

func (s *Set) follow(kind schema.GroupVersionKind, f Follower, informer cache.Informer) error {
	f.Came()
	object := func(o any) client.Object {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		out, _ := o.(client.Object)
		return out
	}
	registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { f.Changed(nil, object(o)) },
		DeleteFunc: func(o any) { f.Changed(object(o), nil) },
		UpdateFunc: func(before, after any) { f.Changed(object(before), object(after)) },
	})
	if err == nil {
		s.told[kind] = append(s.told[kind], registered.HasSyncedChecker())
	}
	return err
}

// Has says whether a kind of the set is watched.
func (s *Set) Has(kind schema.GroupVersionKind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watched[kind] != nil
}

// Lacks says whether a kind is one of these and cannot be read, and why: that it is
// not there, if nothing else is said.
func (s *Set) Lacks(kind schema.GroupVersionKind) (why string, lacks bool) {
	if s == nil || !slices.ContainsFunc(s.all, func(k compat.Kind) bool { return k.GroupVersionKind == kind }) {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lacking(kind)
}

func (s *Set) lacking(kind schema.GroupVersionKind) (why string, lacks bool) {
	if s.watched[kind] != nil {
		return "", false
	}
	if why = s.refused[kind]; why == "" {
		why = fmt.Sprintf("the API server does not know kind %s of %s", kind.Kind, kind.Group)
	}
	return why, true
}

// Informers of the kinds that are there.
func (s *Set) Informers() []cache.Informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.watched))
}
