package cloudscale

import (
	"hash/fnv"
	"net/netip"
	"slices"
	"sync"
)

// backend is a pool at work: it chooses a member for every new connection.
type backend struct {
	mu      sync.Mutex
	config  poolConfig
	down    map[string]bool // by member
	conns   map[string]int
	lastOne int // of round_robin
}

func newBackend() *backend {
	return &backend{down: make(map[string]bool), conns: make(map[string]int)}
}

func (b *backend) set(c poolConfig) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.config = c
}

// protocol is how members are talked to.
func (b *backend) protocol() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.config.protocol
}

// found notes how a member is.
func (b *backend) found(member string, up bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.down, member); !up {
		b.down[member] = true
	}
}

// pick chooses a member for a client that was not tried yet. The connection is
// counted until done is called.
func (b *backend) pick(client netip.Addr, tried []string) (m memberConfig, done func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	candidates := slices.DeleteFunc(slices.Clone(b.config.members), func(m memberConfig) bool {
		return !m.enabled || b.down[m.uuid] || slices.Contains(tried, m.uuid)
	})
	if len(candidates) == 0 {
		return memberConfig{}, nil, false
	}
	switch b.config.algorithm {
	case "source_ip":
		h := fnv.New32a()
		h.Write(client.Unmap().AsSlice())
		m = candidates[int(h.Sum32()%uint32(len(candidates)))]
	case "least_connections":
		m = slices.MinFunc(candidates, func(x, y memberConfig) int { return b.conns[x.uuid] - b.conns[y.uuid] })
	default:
		b.lastOne++
		m = candidates[b.lastOne%len(candidates)]
	}
	b.conns[m.uuid]++
	return m, sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.conns[m.uuid]--; b.conns[m.uuid] == 0 {
			delete(b.conns, m.uuid)
		}
	}), true
}

// mayUse reports whether a client is among those that are allowed.
func mayUse(client netip.Addr, allowed []netip.Prefix) bool {
	return len(allowed) == 0 || slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(client.Unmap()) })
}
