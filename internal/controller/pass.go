package controller

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// pass is a look at all Services of a backend, after which orphans are removed: not before
// everything that is needed was looked at once. One that succeeds is enough; what is
// orphaned later is found by every resync.
type pass struct {
	mu    sync.Mutex
	left  map[types.NamespacedName]bool
	then  func() error // nil if no pass is under way
	done  bool
	tasks sync.WaitGroup
}

// begin starts a pass over services, unless one has succeeded.
func (p *pass) begin(services []types.NamespacedName, then func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return
	}
	p.then, p.left = then, make(map[types.NamespacedName]bool, len(services))
	for _, s := range services {
		p.left[s] = true
	}
	p.end()
}

// looked says that a Service was looked at.
func (p *pass) looked(service types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.left, service)
	p.end()
}

// end ends the pass if all Services were looked at; p is locked.
func (p *pass) end() {
	then := p.then
	if then == nil || len(p.left) > 0 {
		return
	}
	p.then = nil
	p.tasks.Go(func() {
		if then() == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.done = true
		}
	})
}

// stop ends everything, and waits for what is under way.
func (p *pass) stop() {
	p.mu.Lock()
	p.then, p.done = nil, true
	p.mu.Unlock()
	p.tasks.Wait()
}

// beginPass starts a pass if the backend removes orphans.
func (c *services) beginPass(ctx context.Context, services []types.NamespacedName) {
	if !c.backend.RemoveOrphans {
		return
	}
	c.pass.begin(services, func() error {
		err := c.lookForOrphans(ctx)
		if err != nil && ctx.Err() == nil {
			c.log.Warn("orphan check failed", "backend", c.name, "error", err)
		}
		return err
	})
}
