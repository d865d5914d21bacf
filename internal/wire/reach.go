package wire

import (
	"context"
	"errors"
	"net"
	"time"
)

// Reach asks the host that has an address, once, whether it is there, and returns its MAC, or
// nil if it does not answer in time. The question has to be an ordinary one (see Question). It
// goes to the host at the MAC alone; nil: to all hosts.
func (p *Port) Reach(ctx context.Context, q Question, at net.HardwareAddr, wait time.Duration) (net.HardwareAddr, error) {
	if !q.ordinary() {
		return nil, errors.New("ask whether a host is there: an address of this host is needed")
	}
	frame := q.frame
	if len(at) == len(mac{}) {
		to := mac(at)
		frame = func(own mac) ([]byte, error) {
			if q.Addr.Is4() {
				return arp{op: arpRequest, senderMAC: own, sender: q.From, target: q.Addr}.frame(to), nil
			}
			return solicitAt(q.Addr, q.From, own, to)
		}
	}
	probe := &probe{found: make(chan mac, 1), answersOnly: true}
	p.listenFor(q.Addr, probe)
	defer p.forget(q.Addr, probe)
	if err := p.send(q.Addr, "ask", frame); err != nil {
		return nil, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case host := <-probe.found:
		return host.hardware(), nil
	case <-timer.C:
		select { // this process may be late, too
		case host := <-probe.found:
			return host.hardware(), nil
		default:
			return nil, nil
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
		return nil, net.ErrClosed
	}
}
