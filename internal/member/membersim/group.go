package membersim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"fairlead.io/internal/member"
)

// Address is that of member number i of a simulated group.
func Address(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i / 250), byte(i%250 + 1)}), member.DefaultPort)
}

// Name is that of member number i.
func Name(i int) string { return fmt.Sprintf("node-%03d", i) }

// Key is the one that simulated groups use.
var Key = []byte("0123456789abcdef0123456789abcdef")

// Group starts n members on the network and joins them. It must be called in a
// bubble. The caller closes them, also those that come with an error.
func (n *Network) Group(ctx context.Context, size int) (groups []*member.Group, err error) {
	for i := range size {
		g, err := n.Start(i)
		if err != nil {
			return groups, err
		}
		groups = append(groups, g)
		if i == 0 {
			continue
		}
		if _, err := g.Join(ctx, []netip.AddrPort{Address(0)}); err != nil {
			return groups, err
		}
	}
	return groups, meet(ctx, groups)
}

// meet waits until all know all. In one of twenty groups of a hundred, gossip passes a
// member by: each hears of another one twelve times on average, so it misses it with a
// probability of e⁻¹², and there are 9,900 pairs. The next exchange of all that is known
// comes 15 s later. Agents do not wait for it: they look for those whom they miss.
func meet(ctx context.Context, groups []*member.Group) error {
	all := make([]netip.AddrPort, len(groups))
	for i := range all {
		all[i] = Address(i)
	}
	for end := time.Now().Add(10 * time.Second); !Wait(member.JoinPeriod, func() bool { return complete(groups) }); {
		if time.Now().After(end) {
			return errors.New("the members do not find each other")
		}
		for _, g := range groups {
			if _, err := g.Join(ctx, all); err != nil {
				return err
			}
		}
	}
	return nil
}

// Start starts member number i, alone.
func (n *Network) Start(i int) (*member.Group, error) {
	return member.Start(member.Config{
		Name: Name(i), Bind: Address(i), Key: Key,
		Meta:      member.Meta{Eligible: true, Links: []member.Link{{Name: "eth0", V4: true, V6: true}}},
		Transport: n.Transport(Address(i)),
	})
}

// Close closes members in a bubble, and lets memberlist's last timers run out:
// time ends with the bubble's first function, and who still waits then waits
// forever.
func Close(groups ...*member.Group) {
	for _, g := range groups {
		g.Close()
	}
	pause(10 * time.Second)
}

// Wait lets virtual time pass until something holds, or for no longer than that.
func Wait(limit time.Duration, holds func() bool) bool {
	for end := time.Now().Add(limit); !holds(); pause(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func complete(groups []*member.Group) bool {
	for _, g := range groups {
		if len(g.Members()) != len(groups) {
			return false
		}
	}
	return true
}
