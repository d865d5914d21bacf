package member

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// JoinPeriod is how often members that are not known should be looked for: a node that
// was added takes part after that, and one that died is not asked in vain too often.
const JoinPeriod = 300 * time.Millisecond

// joinTries is how many are asked at a time. The first that answers knows the
// others, so that they need not be asked.
const joinTries = 4

// Join looks for members at these addresses. It skips current members, so it can be
// called repeatedly with all addresses that might have one. It returns how many
// answered. It returns an error if it asked some and none answered. Until the next
// call, streams from these addresses go before those of strangers (see gate).
func (g *Group) Join(ctx context.Context, addrs []netip.AddrPort) (joined int, err error) {
	addrs = slices.Clone(addrs)
	g.setNodes(addrs)
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	var errs []error
	for {
		addrs = g.strangers(addrs)
		if len(addrs) == 0 || ctx.Err() != nil {
			if joined == 0 {
				err = errors.Join(append(errs, ctx.Err())...)
			}
			return joined, err
		}
		some := addrs[:min(joinTries, len(addrs))]
		addrs = addrs[len(some):]
		for result := range g.exchange(ctx.Done(), some) {
			if result == nil {
				joined++
			} else {
				errs = append(errs, result)
			}
		}
	}
}

func (g *Group) setNodes(addrs []netip.AddrPort) {
	nodes := make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		nodes[a.Addr().Unmap()] = true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes = nodes
}

// nodeAt says whether a node has this address, as far as is known.
func (g *Group) nodeAt(addr netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes[addr] {
		return true
	}
	for _, m := range g.members {
		if m.Addr() == addr {
			return true
		}
	}
	for _, d := range g.departed {
		if d.addr.Addr() == addr {
			return true
		}
	}
	return false
}

// strangers are those addresses that have no member.
func (g *Group) strangers(addrs []netip.AddrPort) []netip.AddrPort {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := map[netip.AddrPort]bool{g.addr: true}
	for _, addr := range g.members {
		known[addr] = true
	}
	for _, d := range g.doubts {
		known[d.addr] = true
	}
	return slices.DeleteFunc(addrs, func(a netip.AddrPort) bool {
		return known[netip.AddrPortFrom(a.Addr().Unmap(), a.Port())]
	})
}

// exchange exchanges all with whoever is at these addresses, with all of them at
// the same time, and yields how that went, until the caller or the group ends.
func (g *Group) exchange(end <-chan struct{}, addrs []netip.AddrPort) func(yield func(error) bool) {
	results := make(chan error, len(addrs))
	for _, addr := range addrs {
		go func() { // ends within two exchangeTimeouts, whoever still waits for it
			_, err := g.list.Join([]string{addr.String()})
			results <- err
		}()
	}
	return func(yield func(error) bool) {
		for range addrs {
			select {
			case err := <-results:
				if !yield(err) {
					return
				}
			case <-end:
				return
			case <-g.done:
				return
			}
		}
	}
}

// rejoin tries lost members for as long as they are remembered. memberlist
// speaks to nobody whom it believes dead; so two halves of a group that were
// parted would stay so, each with the other's dead.
func (g *Group) rejoin() {
	ticker := time.NewTicker(rejoinInterval)
	defer ticker.Stop()
	for {
		select {
		case <-g.done:
			return
		case <-ticker.C:
		}
		answered := false
		lost := g.lost()
		for result := range g.exchange(g.done, lost) {
			answered = answered || result == nil
		}
		// In the first exchange each has read that the other believes it dead; now
		// it has contradicted that, and is believed.
		if again := g.strangers(lost); answered && len(again) > 0 {
			for range g.exchange(g.done, again) {
			}
		}
	}
}

// lost are the addresses of some members that died, at random, without those that
// another member has by now.
func (g *Group) lost() (lost []netip.AddrPort) {
	g.mu.Lock()
	for _, d := range g.departed {
		if !d.left && d.addr.IsValid() {
			lost = append(lost, d.addr)
		}
	}
	g.mu.Unlock()
	lost = g.strangers(lost)
	rand.Shuffle(len(lost), func(i, j int) { lost[i], lost[j] = lost[j], lost[i] })
	return lost[:min(rejoinTries, len(lost))]
}
