package membersim

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/member"
)

// Detection is how long after a node fell silent the others knew that it is dead.
type Detection struct {
	Each []time.Duration // every member in every run: what one that takes over waits
	Last []time.Duration // the last member in every run
}

// Detect lets one of as many members fall silent, again and again, in virtual
// time. It may be called outside of a test.
func Detect(ctx context.Context, members, runs int) (d Detection, err error) {
	err = bubble(func(inside context.Context) error {
		d, err = detect(inside, members, runs, ctx.Err)
		return err
	})
	return d, err
}

func detect(ctx context.Context, members, runs int, interrupted func() error) (d Detection, err error) {
	n := &Network{Delay: 100 * time.Microsecond}
	groups, err := n.Group(ctx, members)
	defer Close(groups...)
	if err != nil {
		return d, err
	}
	for range runs {
		if err := interrupted(); err != nil {
			return d, err
		}
		// The silence begins at any moment of a probe interval. After the one before,
		// all had to contradict rumours of their own death, which makes them doubt
		// themselves and wait longer; that takes some seconds to pass.
		pause(5*time.Second + rand.N(time.Second))
		victim := rand.IntN(members)
		n.Split(Address(victim).Addr())
		began := time.Now()
		var last time.Duration
		for i, g := range groups {
			if i == victim {
				continue
			}
			at, err := died(g, Name(victim))
			if err != nil {
				return d, err
			}
			d.Each = append(d.Each, at.Sub(began))
			last = max(last, at.Sub(began))
		}
		d.Last = append(d.Last, last)
		n.Heal()
		if !Wait(30*time.Second, func() bool { return complete(groups) }) {
			return d, errors.New("a member that was cut off does not come back")
		}
	}
	return d, nil
}

// died waits until the member is dead for the group.
func died(g *member.Group, name string) (at time.Time, err error) {
	if !Wait(10*time.Second, func() (ok bool) { at, ok = g.Died(name); return ok }) {
		return at, errors.New("a dead member is not noticed")
	}
	return at, nil
}

func pause(d time.Duration) { <-time.After(d) }

// Spread is how long after a member has claimed an address the last of the others
// knew it.
func Spread(ctx context.Context, members, runs int, loss float64) (last []time.Duration, err error) {
	err = bubble(func(inside context.Context) error {
		last, err = spread(inside, members, runs, loss, ctx.Err)
		return err
	})
	return last, err
}

func spread(ctx context.Context, members, runs int, loss float64, interrupted func() error) (last []time.Duration, err error) {
	n := &Network{Delay: 100 * time.Microsecond, Loss: loss}
	groups, err := n.Group(ctx, members)
	defer Close(groups...)
	if err != nil {
		return nil, err
	}
	for run := range runs {
		if err := interrupted(); err != nil {
			return last, err
		}
		pause(time.Second + rand.N(time.Second))
		epoch := uint64(run + 1)
		address := netip.MustParseAddr("192.0.2.1")
		claimant := rand.IntN(members)
		began := time.Now()
		groups[claimant].SetClaims([]member.Claim{{Key: member.Addr(address), Epoch: epoch, Up: true}})
		for _, g := range groups {
			for i := 0; !knows(g, address, epoch); i++ {
				if i == 100_000 {
					return last, errors.New("a claim does not spread")
				}
				pause(100 * time.Microsecond)
			}
		}
		last = append(last, time.Since(began))
	}
	return last, nil
}

func knows(g *member.Group, address netip.Addr, epoch uint64) bool {
	claims := g.Claims()[member.Addr(address)]
	return len(claims) > 0 && claims[0].Epoch >= epoch
}

// bubble runs f in virtual time, with a context of the same time (the channel of
// another one cannot be used there). Only a test can have a bubble, so one is
// made up: what synctest needs of it is there in the zero value.
func bubble(f func(context.Context) error) (err error) {
	synctest.Test(new(testing.T), func(t *testing.T) { err = f(t.Context()) })
	return err
}
