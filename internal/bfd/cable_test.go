package bfd

import (
	"context"
	"net/netip"
	"sync"
	"syscall"
)

// cable is a Wire in memory between any number of speakers. Packets arrive at once, each in
// a goroutine of its own as on real sockets.
type cable struct {
	mu     sync.Mutex
	lines  map[Peer]*cableLine
	cut    map[netip.Addr]bool // addresses whose packets are lost
	errs   map[netip.Addr]error
	ttl    uint8
	sent   map[netip.Addr]int // packets by sender
	opened map[netip.Addr]int // tries by local address
	wait   sync.WaitGroup
}

func newCable() *cable {
	return &cable{lines: map[Peer]*cableLine{}, cut: map[netip.Addr]bool{}, errs: map[netip.Addr]error{}, ttl: 255, sent: map[netip.Addr]int{}, opened: map[netip.Addr]int{}}
}

type cableLine struct {
	cable *cable
	peer  Peer
	hear  func([]byte, uint8)
}

func (c *cable) Open(_ context.Context, p Peer, hear func([]byte, uint8)) (Line, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened[p.Local]++
	if err := c.errs[p.Local]; err != nil {
		return nil, err
	}
	l := &cableLine{c, p, hear}
	c.lines[p] = l
	return l, nil
}

func (l *cableLine) Send(b []byte) error {
	c, p := l.cable, l.peer
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[p.Local]++
	to := p
	to.Local, to.Remote = p.Remote, p.Local
	other := c.lines[to]
	if c.cut[p.Local] {
		return nil
	}
	if other == nil {
		return syscall.ECONNREFUSED
	}
	b = append([]byte(nil), b...)
	ttl := c.ttl
	c.wait.Go(func() { other.hear(b, ttl) })
	return nil
}

func (l *cableLine) Drain() {}

func (l *cableLine) Close() error {
	l.cable.mu.Lock()
	defer l.cable.mu.Unlock()
	if l.cable.lines[l.peer] == l {
		delete(l.cable.lines, l.peer)
	}
	return nil
}

// set changes the cable.
func (c *cable) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// count returns how many packets an address has sent.
func (c *cable) count(a netip.Addr) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent[a]
}
