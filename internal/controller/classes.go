package controller

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// Backend is one that serves classes, and how it is run.
type Backend struct {
	backend.Backend
	// Workers is how many Services are worked on at the same time.
	Workers int
	// Plans says that it can tell what it would do without doing it. DryRun: it only
	// tells, for every Service.
	Plans, DryRun bool
	// Resync is how often all Services are looked at, and orphans looked for; 0 is
	// never.
	Resync time.Duration
	// RemoveOrphans: resources of Services that no longer exist are removed, not only
	// reported.
	RemoveOrphans bool
}

// words is the dialect that the backend speaks, or "".
func (b *Backend) words() lb.Dialect {
	if s, ok := b.Backend.(backend.Speaker); ok {
		return s.Words()
	}
	return ""
}

func (b *Backend) needs() lb.Needs {
	if n, ok := b.Backend.(backend.Needs); ok {
		return n.Needs()
	}
	return lb.Needs{}
}

// held is what s has, as far as the backend knows.
func (b *Backend) held(s *lb.Service) lb.Held {
	if h, ok := b.Backend.(backend.Holder); ok {
		return h.Held(s)
	}
	return lb.Held{Addresses: s.Published(), Evidence: lb.Reported, Current: s.Attested()}
}

// vanished lets the backend remove what a Service had that no longer exists.
func (b *Backend) vanished(ctx context.Context, service types.NamespacedName) error {
	v, ok := b.Backend.(backend.Vanisher)
	if !ok || b.DryRun {
		return nil
	}
	return v.Vanished(ctx, service)
}

// marked says whether s has something that the backend wrote.
func (b *Backend) marked(s *lb.Service) bool {
	if m, ok := b.Backend.(backend.Marker); ok {
		return m.Marked(s)
	}
	return s.Says != nil
}

// classes knows whose a Service is.
type classes struct {
	config   *config.Configuration
	backends map[config.Backend]*Backend
	dialects []compat.Dialect
	agents   bool // there are some, and they report
}

func newClasses(o Options) *classes {
	c := &classes{config: o.Config, backends: map[config.Backend]*Backend{}, dialects: o.Dialects, agents: o.GossipKey}
	for name, b := range o.Backends {
		if slices.Contains(o.Config.Backends(), name) {
			b.Workers = max(1, cmp.Or(b.Workers, o.Workers))
			c.backends[name] = &b
		}
	}
	return c
}

// of returns the class that serves s, or nil if none does.
func (c *classes) of(s *lb.Service) *config.Class {
	class := c.listed(s)
	if class == nil || c.backends[class.Backend] == nil || c.ignored(s) != "" {
		return nil
	}
	return class
}

// whose is the backend of the class of s, be s served or ignored; "" if there is none.
func (c *classes) whose(s *lb.Service) config.Backend {
	if class := c.listed(s); class != nil && c.backends[class.Backend] != nil {
		return class.Backend
	}
	return ""
}

// listed returns the class of s in the configuration, or nil.
func (c *classes) listed(s *lb.Service) *config.Class {
	if !s.LoadBalancer {
		return nil
	}
	return c.config.Class(s.Class)
}

// ignored says why s, which is of a class that is served, must be left alone; "" if
// it need not.
func (c *classes) ignored(s *lb.Service) string {
	class := c.listed(s)
	if class == nil || c.backends[class.Backend] == nil {
		return ""
	}
	words := c.backends[class.Backend].words()
	for _, d := range c.dialects {
		// Users of that format see the annotation, too.
		if i, ok := d.(compat.Ignorer); ok && d.Name() != words && slices.Contains(class.Pools, d.Name()) {
			if why := i.Ignores(s); why != "" {
				return why
			}
		}
	}
	return ""
}

// leftBy is the backend that gave s its addresses, where no class serves s now: the
// configuration has changed. Nobody else gets them while s is there, and s is left
// alone, by all backends. It is "" if none did.
func (c *classes) leftBy(s *lb.Service) config.Backend {
	if !s.LoadBalancer || c.listed(s) != nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(c.backends)) {
		if c.backends[name].held(s).Left {
			return name
		}
	}
	return ""
}

// reading is how Services of class are read.
func (c *classes) reading(class *config.Class) compat.Class {
	b := c.backends[class.Backend]
	out := compat.Class{Dialects: class.Pools, Words: b.words(), Plans: b.Plans}
	_, out.Lingers = b.Backend.(backend.Vanisher)
	if _, ok := b.Backend.(backend.Inventory); ok && !slices.Contains(out.Dialects, out.Words) {
		out.Dialects = append(slices.Clone(out.Dialects), out.Words)
	}
	return out
}

// readingOf is how Services are read that no class serves any more and that the
// backend of that name has served.
func (c *classes) readingOf(name config.Backend) compat.Class {
	var out compat.Class
	for i := range c.config.Classes {
		if class := &c.config.Classes[i]; class.Backend == name {
			in := c.reading(class)
			for _, d := range in.Dialects {
				if !slices.Contains(out.Dialects, d) {
					out.Dialects = append(out.Dialects, d)
				}
			}
			out.Words, out.Plans, out.Lingers = in.Words, in.Plans, in.Lingers
		}
	}
	return out
}

// settles says whether the class's addresses are from pools.
func (c *classes) settles(class *config.Class) bool { return len(c.reading(class).Dialects) > 0 }

// fromPools says whether any class of the backend has addresses from pools.
func (c *classes) fromPools(name config.Backend) bool {
	return slices.ContainsFunc(c.config.Classes, func(class config.Class) bool {
		return class.Backend == name && c.backends[name] != nil && c.settles(&class)
	})
}

// anyFromPools says whether any class has addresses from pools.
func (c *classes) anyFromPools() bool {
	for name := range c.backends {
		if c.fromPools(name) {
			return true
		}
	}
	return false
}

// uses says whether the objects of a dialect count: any class may use its pools, or
// speaks it and names no pools. Pools that no class may use would only be in the way
// of others.
func (c *classes) uses(name lb.Dialect) bool {
	return slices.ContainsFunc(c.config.Classes, func(class config.Class) bool {
		b := c.backends[class.Backend]
		return b != nil && (slices.Contains(c.reading(&class).Dialects, name) || len(class.Pools) == 0 && b.words() == name)
	})
}

// words of all dialects.
func (c *classes) words() map[lb.Dialect]lb.Words {
	out := map[lb.Dialect]lb.Words{}
	for _, d := range c.dialects {
		out[d.Name()] = d.Words()
	}
	return out
}

// voice of a dialect; that of an unknown one is plain.
func (c *classes) voice(name lb.Dialect) compat.Voice {
	for _, d := range c.dialects {
		if d.Name() == name {
			return d.Voice()
		}
	}
	return compat.PlainVoice{}
}
