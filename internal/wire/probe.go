package wire

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/lb"
)

// RFC 5227 §1.1 asks three times, one to two seconds apart, and waits two more;
// RFC 4862 asks once and waits one second. Both are made for hosts that are
// switched on in their hundreds and links that need seconds to come up. Here
// the link is up, the other host is a server or a router whose kernel answers
// in far less than a millisecond, and people wait for the address. Three times
// because frames get lost; 200 ms at the end for a host that is very busy. An
// answer that comes later still is heard: see Heard.
const (
	probeCount = 3
	probeGap   = 100 * time.Millisecond
	probeWait  = 200 * time.Millisecond
)

// probePace bounds what a new pool of many addresses puts on the LAN at once.
// 1,000 addresses are probed in three seconds, a single one in 400 ms.
var probePace = pacer{every: time.Millisecond, burst: 20}

// probe is one under way.
type probe struct {
	ours  func(net.HardwareAddr) bool
	found chan mac
	// answersOnly: other hosts that ask for the address, too, or announce it, do not
	// count.
	answersOnly bool
	// unsolicited: answers look like announcements.
	unsolicited bool
}

func (p *probe) notice(s sign) {
	if p.ours != nil && p.ours(s.mac.hardware()) || p.answersOnly && (s.asks || !s.answers && !p.unsolicited) {
		return
	}
	select {
	case p.found <- s.mac:
	default: // one is enough
	}
}

// Probe asks whether another host has addr or, at the same moment, asks for it,
// too (RFC 5227 §2.1.1, RFC 4862 §5.4.3). It returns the MAC of such a host, or
// nil if there is none. Hosts at MACs that are ours do not count; ours may be
// nil. The link must be up: nobody answers on one without carrier.
func (p *Port) Probe(ctx context.Context, addr netip.Addr, ours func(net.HardwareAddr) bool) (net.HardwareAddr, error) {
	probe := &probe{ours: ours, found: make(chan mac, 1)}
	p.listenFor(addr, probe)
	defer p.forget(addr, probe)
	defer p.attend(addr)()

	p.mu.Lock()
	wait := p.turn.reserve(time.Now(), probeCount)
	p.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for sent := 0; ; sent++ {
		select {
		case other := <-probe.found:
			return other.hardware(), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.done:
			return nil, net.ErrClosed
		case <-timer.C:
		}
		if sent == probeCount {
			return nil, nil
		}
		if err := p.send(addr, "probe", func(own mac) ([]byte, error) { return question(addr, own) }); err != nil {
			return nil, err
		}
		timer.Reset(probeGap)
		if sent == probeCount-1 {
			timer.Reset(probeWait)
		}
	}
}

func (p *Port) listenFor(addr netip.Addr, probe *probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probes[addr] = append(p.probes[addr], probe)
}

func (p *Port) forget(addr netip.Addr, ended *probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probes[addr] = slices.DeleteFunc(p.probes[addr], func(x *probe) bool { return x == ended })
	if len(p.probes[addr]) == 0 {
		delete(p.probes, addr)
	}
}

// attend is in the multicast group of addr until the function it returns is
// called, to hear the questions of others (RFC 4862 §5.4.2); answers come to all
// nodes. Nobody waits for it: the kernel takes its lock of all interfaces for
// this, which a node that starts many pods may hold for long. And one at a time,
// because each that waits in the kernel takes a thread. Errors are those of an
// interface that is gone or a port that is closed, which sending has, too.
func (p *Port) attend(addr netip.Addr) (leave func()) {
	if addr.Is4() {
		return func() {} // broadcast
	}
	left := make(chan struct{})
	change := func(f func(net.HardwareAddr) error) error {
		p.groups.Lock()
		defer p.groups.Unlock()
		return f(multicastMAC(solicitedNode(addr)).hardware())
	}
	go func() {
		socket := p.sockets[lb.IPv6]
		err := change(socket.JoinGroup)
		<-left
		if err == nil {
			_ = change(socket.LeaveGroup)
		}
	}()
	return func() { close(left) }
}
