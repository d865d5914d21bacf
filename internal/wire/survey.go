package wire

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// A survey is made while a node may be dead and its users wait: three questions in
// 100 ms and 75 ms for the last answer. Kernels answer in far less than a millisecond.
const (
	surveyCount = 3
	surveyGap   = 50 * time.Millisecond
	surveyWait  = 75 * time.Millisecond
)

// Question is for the host that has Addr.
type Question struct {
	Addr netip.Addr
	// From, if valid, is an address of this host on the interface, of the same family.
	// Then the question is an ordinary one, which every host answers, and which does
	// not look as if somebody wanted to have Addr. Without it, IPv6 hosts that announce
	// Addr at the same moment seem to answer.
	From netip.Addr
}

// Survey asks several questions at once and returns the MAC of the first host that
// answered each. Who only asks for an address at the same moment does not have it, and
// who announces it may not hear the question.
func (p *Port) Survey(ctx context.Context, questions []Question) (map[netip.Addr]net.HardwareAddr, error) {
	probes := make(map[netip.Addr]*probe, len(questions))
	for _, q := range questions {
		if probes[q.Addr] == nil {
			probes[q.Addr] = &probe{found: make(chan mac, 1), answersOnly: true, unsolicited: q.Addr.Is6() && !q.ordinary()}
			p.listenFor(q.Addr, probes[q.Addr])
			defer p.forget(q.Addr, probes[q.Addr])
		}
	}
	answers := map[netip.Addr]net.HardwareAddr{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for sent := 0; ; sent++ {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.done:
			return nil, net.ErrClosed
		case <-timer.C:
		}
		for addr, probe := range probes {
			select {
			case host := <-probe.found:
				answers[addr] = host.hardware()
			default:
			}
		}
		if sent == surveyCount || len(answers) == len(probes) {
			return answers, nil
		}
		for _, q := range questions {
			if answers[q.Addr] != nil {
				continue
			}
			if err := p.send(q.Addr, "ask for", q.frame); err != nil {
				return nil, err
			}
		}
		timer.Reset(surveyGap)
		if sent == surveyCount-1 {
			timer.Reset(surveyWait)
		}
	}
}

func (q Question) ordinary() bool { return q.From.IsValid() && q.From.Is4() == q.Addr.Is4() }

func (q Question) frame(own mac) ([]byte, error) {
	if !q.ordinary() {
		return question(q.Addr, own)
	}
	if q.Addr.Is4() {
		return arp{op: arpRequest, senderMAC: own, sender: q.From, target: q.Addr}.broadcast(), nil
	}
	return solicit(q.Addr, q.From, own)
}
