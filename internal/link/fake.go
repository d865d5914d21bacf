package link

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync"
)

// Fake is Links without a kernel, for tests: it has the same methods. All methods
// may be called at the same time.
type Fake struct {
	// Fail, if set, is asked before an address is added, removed or renewed: "add",
	// "remove" or "renew".
	Fail func(verb, ifname string, a netip.Addr) error

	// Routers are the gateways.
	Routers []netip.Addr

	mu      sync.Mutex
	links   []Link
	hosts   map[string][]Host
	ours    map[Address]bool
	changed chan struct{}
	done    chan struct{}
	err     error
}

// NewFake has these interfaces.
func NewFake(links ...Link) *Fake {
	return &Fake{links: links, ours: map[Address]bool{}, changed: make(chan struct{}, 1), done: make(chan struct{})}
}

// SetLinks changes the interfaces. Addresses of ours on one that is gone, or was
// replaced, are gone with it.
func (f *Fake) SetLinks(links ...Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for a := range f.ours {
		if before, now := f.find(f.links, a.Interface), f.find(links, a.Interface); now == nil || before == nil || now.Index != before.Index {
			delete(f.ours, a)
		}
	}
	f.links = slices.Clone(links)
	f.signal()
}

// SetFail sets Fail while others use the fake.
func (f *Fake) SetFail(fail func(verb, ifname string, a netip.Addr) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Fail = fail
}

// SetHosts changes which hosts the kernel knows, by interface.
func (f *Fake) SetHosts(hosts map[string][]Host) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts = hosts
}

// Hosts is as Links.Hosts.
func (f *Fake) Hosts() (map[string][]Host, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts, nil
}

// Recheck is as Links.Recheck: a fake has no settings.
func (f *Fake) Recheck() {}

// Drop takes our address off an interface, as another program would.
func (f *Fake) Drop(ifname string, a netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ours, Address{ifname, a})
	f.signal()
}

// End has interfaces not followed any more.
func (f *Fake) End(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	close(f.done)
}

func (f *Fake) signal() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *Fake) find(links []Link, name string) *Link {
	for i := range links {
		if links[i].Name == name {
			return &links[i]
		}
	}
	return nil
}

// on calls do with the lock held, if there is such an interface and Fail has no
// error.
func (f *Fake) on(verb, ifname string, a netip.Addr, do func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := error(nil)
	if l := f.find(f.links, ifname); l == nil {
		err = ErrNoInterface
	} else if verb == "add" && l.Has(a) {
		err = ErrOccupied
	} else if f.Fail != nil {
		err = f.Fail(verb, ifname, a)
	}
	if err != nil {
		return fmt.Errorf("%s %v on %s: %w", verb, a, ifname, err)
	}
	do()
	return nil
}

// List is as Links.List.
func (f *Fake) List() []Link {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.links)
}

// Ours is as Links.Ours.
func (f *Fake) Ours() (out []Address) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for a := range f.ours {
		out = append(out, a)
	}
	slices.SortFunc(out, func(x, y Address) int { return cmp.Or(cmp.Compare(x.Interface, y.Interface), x.Addr.Compare(y.Addr)) })
	return out
}

// Gateways is as Links.Gateways.
func (f *Fake) Gateways() ([]netip.Addr, error) { return f.Routers, nil }

// Add is as Links.Add.
func (f *Fake) Add(ifname string, a netip.Addr) error {
	return f.on("add", ifname, a, func() { f.ours[Address{ifname, a}] = true })
}

// Remove is as Links.Remove.
func (f *Fake) Remove(ifname string, a netip.Addr) error {
	f.mu.Lock()
	there := f.find(f.links, ifname) != nil
	f.mu.Unlock()
	if !there {
		return nil
	}
	return f.on("remove", ifname, a, func() { delete(f.ours, Address{ifname, a}) })
}

// Renew is as Links.Renew.
func (f *Fake) Renew(addresses []Address) (missing []Address, err error) {
	for _, a := range addresses {
		f.mu.Lock()
		there := f.ours[a]
		f.mu.Unlock()
		if !there {
			missing = append(missing, a)
		} else if failed := f.on("renew", a.Interface, a.Addr, func() {}); failed != nil {
			err = failed
		}
	}
	return missing, err
}

// Changed is as Links.Changed.
func (f *Fake) Changed() <-chan struct{} { return f.changed }

// Done is as Links.Done.
func (f *Fake) Done() <-chan struct{} { return f.done }

// Err is as Links.Err.
func (f *Fake) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
