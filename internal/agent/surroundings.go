package agent

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// surroundingsPeriod is how often routes and name servers are read; link changes
	// come on top.
	surroundingsPeriod = 30 * time.Second
	resolvConf         = "/etc/resolv.conf"

	maxGateways    = 64
	maxNameServers = 16
)

// surroundings are the hosts that a node depends on: its routers and name servers. No
// Service may have their addresses.
type surroundings struct {
	kernel Kernel
	file   string // resolv.conf
	look   chan struct{}

	mu                    sync.Mutex
	gateways, nameServers []netip.Addr
}

func newSurroundings(kernel Kernel) *surroundings {
	return &surroundings{kernel: kernel, file: resolvConf, look: make(chan struct{}, 1)}
}

// watch reads them again and again until ctx ends.
func (s *surroundings) watch(ctx context.Context) {
	tick := time.NewTicker(surroundingsPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.look:
		}
		s.read()
	}
}

// read takes over what there is now. What cannot be read stays as it was.
func (s *surroundings) read() {
	gateways, gatewaysErr := s.kernel.Gateways()
	text, fileErr := os.ReadFile(s.file)
	servers := nameServers(string(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	if gatewaysErr == nil {
		s.gateways = gateways[:min(len(gateways), maxGateways)]
	}
	if fileErr == nil {
		s.nameServers = servers
	}
}

func (s *surroundings) now() (gateways, servers []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateways, s.nameServers
}

// nameServers returns those that a resolv.conf names, without ones on the node itself.
func nameServers(text string) (out []netip.Addr) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		addr, err := netip.ParseAddr(fields[1])
		if addr = addr.WithZone("").Unmap(); err == nil && !addr.IsLoopback() && !addr.IsUnspecified() && !slices.Contains(out, addr) {
			out = append(out, addr)
		}
	}
	return out
}
