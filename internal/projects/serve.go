package projects

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/eip"
)

// workers is how many EIps are worked on at the same time.
const workers = 4

// Touch looks again at the EIps that Services may use, and at those of other namespaces that
// have the same address: their rows have changed. Without any, all EIps are looked at.
func (p *Projects) Touch(services ...types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(services) == 0 {
		p.queueAll(p.book.EIps(""))
	}
	for _, s := range services {
		names := p.book.EIpsOf(s)
		p.queueNames(s.Namespace, names)
		for _, name := range names {
			p.queueAll(p.book.Sharers(types.NamespacedName{Namespace: s.Namespace, Name: name}))
		}
	}
}

// work serves EIps until the queue ends.
func (p *Projects) work(ctx context.Context) {
	for {
		key, end := p.queue.Get()
		if end {
			return
		}
		again, err := p.serve(ctx, key)
		switch {
		case err != nil:
			if ctx.Err() == nil && !transient(err) {
				p.o.Log.Warn("EIp not served; trying again", "eip", key, "error", err)
			}
			p.queue.AddRateLimited(key)
		default:
			p.queue.Forget(key)
			if again > 0 {
				p.queue.AddAfter(key, again)
			}
		}
		p.queue.Done(key)
	}
}

func (p *Projects) serve(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	if err := p.readable(); err != nil {
		return 0, err
	}
	p.mu.Lock()
	v := p.book.LookAtEIp(key, p.o.Rows, time.Now())
	plan, again := v.EIp(key.Name)
	at, _, _ := p.book.Place(key.Namespace)
	var concerned []types.NamespacedName
	for _, c := range v.Claims {
		if p.hasOther(c.Service.Key, func() eip.Binding { return v.Service(c.Service.UID) }) {
			concerned = append(concerned, c.Service.Key)
		}
	}
	p.mu.Unlock()
	p.wakeUp(wakes{services: concerned})
	if p.o.DryRun {
		return again, nil
	}
	// Routes go before the EIp that they were for.
	if err := p.unroute(ctx, at.Vpc); err != nil {
		return 0, err
	}
	return again, p.Do(ctx, plan)
}
