package bgp

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"fairlead.io/internal/prose"
)

const (
	// advertiseEvery is how often this node shows itself to the router of an unnumbered session.
	advertiseEvery = 10 * time.Second
	// linkPause is between two attempts to open an interface.
	linkPause = time.Second
	// maxRouters is how many are remembered: nobody on the link can use up memory.
	maxRouters = 16
)

// routers are those of the link of an unnumbered session.
type routers struct {
	link    string
	news    chan struct{}
	running sync.WaitGroup

	mu sync.Mutex
	// until when each router that was heard says it is one.
	until map[netip.Addr]time.Time
	err   error
}

// watchRouters listens on an interface until ctx ends.
func watchRouters(ctx context.Context, n Network, name string) *routers {
	r := &routers{link: name, news: make(chan struct{}, 1), until: map[netip.Addr]time.Time{}}
	r.running.Go(func() {
		for ctx.Err() == nil {
			link, err := n.Link(ctx, name)
			r.failed(err)
			if err == nil {
				r.failed(r.serve(ctx, link))
			}
			select {
			case <-ctx.Done():
			case <-time.After(linkPause):
			}
		}
	})
	return r
}

func (r *routers) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *routers) wait() { r.running.Wait() }

// changed has a value when routers came or went; it is nil for numbered sessions.
func (r *routers) changed() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.news
}

// serve uses a link until it fails or ctx ends.
func (r *routers) serve(ctx context.Context, link Link) error {
	failed := make(chan error, 1)
	var hearing sync.WaitGroup
	hearing.Go(func() {
		for {
			router, lifetime, err := link.Hear()
			if err != nil {
				failed <- err
				return
			}
			r.note(router, lifetime, time.Now())
		}
	})
	defer hearing.Wait()
	defer func() { _ = link.Close() }()
	if err := link.Solicit(); err != nil {
		return err
	}
	tick := time.NewTicker(advertiseEvery)
	defer tick.Stop()
	for {
		if err := link.Advertise(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-tick.C:
		}
	}
}

// note remembers a router, or forgets it if its lifetime is 0.
func (r *routers) note(router netip.Addr, lifetime time.Duration, now time.Time) {
	if !router.Is6() || !router.IsLinkLocalUnicast() {
		return
	}
	router = router.WithZone(r.link)
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.until)
	if lifetime <= 0 {
		delete(r.until, router)
	} else if _, known := r.until[router]; known || before < maxRouters {
		r.until[router] = now.Add(lifetime)
	}
	if len(r.until) != before {
		signal(r.news)
	}
}

// only returns the one router of the link.
func (r *routers) only() (netip.Addr, *Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	var all []netip.Addr
	for router, until := range r.until {
		if until.Before(now) {
			delete(r.until, router)
			continue
		}
		all = append(all, router)
	}
	switch {
	case len(all) == 1:
		return all[0], nil
	case len(all) > 1:
		slices.SortFunc(all, netip.Addr.Compare)
		var names []string
		for _, a := range all {
			names = append(names, a.WithZone("").String())
		}
		return netip.Addr{}, &Failure{Kind: SeveralRouters, Text: fmt.Sprintf("several routers are on interface %s: %s. Use the address of one", r.link, prose.Few(names))}
	case r.err != nil:
		return netip.Addr{}, &Failure{Kind: NoRouter, Text: fmt.Sprintf("listen for routers on interface %s: %v", r.link, cause(r.err))}
	default:
		return netip.Addr{}, &Failure{Kind: NoRouter, Text: fmt.Sprintf("no router advertisement was heard on interface %s. The router must send them", r.link)}
	}
}
