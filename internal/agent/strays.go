package agent

import (
	"log/slog"
	"maps"
	"net/netip"
	"sync"
)

// strays removes what the kernel remembers of connections to addresses from before this node had
// them: packets that came while kube-proxy had no rule, and that nobody has translated. The kernel
// would not translate later connections from the same ports of clients either.
type strays struct {
	log *slog.Logger
	// remove is conntrack.RemoveStrays; nil if there is no kernel.
	remove func(of func(netip.Addr) bool) (int, error)

	mu       sync.Mutex
	waiting  map[netip.Addr]bool
	removing bool // a goroutine does
}

// of has those of addresses removed, beside everything else: it takes long where the kernel has
// many connections.
func (s *strays) of(running *sync.WaitGroup, addrs []netip.Addr) {
	if s.remove == nil || len(addrs) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = map[netip.Addr]bool{}
	}
	for _, addr := range addrs {
		s.waiting[addr] = true
	}
	if !s.removing {
		s.removing = true
		running.Go(s.run)
	}
}

// run removes until nothing waits.
func (s *strays) run() {
	for {
		s.mu.Lock()
		addrs := maps.Clone(s.waiting)
		clear(s.waiting)
		s.removing = len(addrs) > 0
		s.mu.Unlock()
		if len(addrs) == 0 {
			return
		}
		n, err := s.remove(func(addr netip.Addr) bool { return addrs[addr] })
		switch {
		case err != nil:
			s.log.Warn("connections from before the address was here are not forgotten", "error", err)
		case n > 0:
			s.log.Info("forgot connections from before the address was here", "connections", n)
		}
	}
}
