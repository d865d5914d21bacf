package membersim

import (
	"context"
	"net/netip"
	"os/exec"
	"syscall"
	"time"

	"fairlead.io/internal/member"
)

// Calm is what was seen while nothing happened but load.
type Calm struct {
	Deaths int           // how often a member was dead for another one, though all were alive
	CPU    time.Duration // that this process took
	Health int           // the worst self-doubt of a member (see member.Group.Health)
}

// Stress lets real members talk over the loopback interface for a while beside as
// many processes that take all CPU they can get, and counts false alarms.
//
// Each of these processes has a session of its own, so that the kernel schedules
// them as groups of equal weight, as it does the pods of a node. (In one group
// with 64 of them, a member waits for a CPU for a second and longer: no time-out
// that is worth having survives that, and no lease either.)
func Stress(ctx context.Context, members, hogs int, length time.Duration) (c Calm, err error) {
	var groups []*member.Group
	defer func() {
		for _, g := range groups {
			g.Close()
		}
	}()
	for i := range members {
		g, err := member.Start(member.Config{
			Name: Name(i), Bind: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 8, byte(i + 1)}), 0),
			Key: Key,
		})
		if err != nil {
			return c, err
		}
		groups = append(groups, g)
		if i > 0 {
			if _, err := g.Join(ctx, []netip.AddrPort{groups[0].Addr()}); err != nil {
				return c, err
			}
		}
	}
	running, stop := context.WithCancel(ctx)
	for range hogs {
		hog := exec.CommandContext(running, "sh", "-c", "while :; do :; done")
		hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
		if err := hog.Start(); err != nil {
			stop()
			return c, err
		}
		defer func() { _ = hog.Wait() }()
	}
	defer stop() // before they are waited for
	return watch(ctx, groups, length)
}

func watch(ctx context.Context, groups []*member.Group, length time.Duration) (c Calm, err error) {
	before, err := used()
	if err != nil {
		return c, err
	}
	end := time.After(length)
	often := time.NewTicker(50 * time.Millisecond)
	defer often.Stop()
	for {
		select {
		case <-often.C:
			for _, g := range groups {
				c.Health = max(c.Health, g.Health())
			}
		case <-ctx.Done():
			return c, ctx.Err()
		case <-end:
			after, err := used()
			c.CPU = after - before
			for _, g := range groups {
				c.Deaths += g.Deaths()
			}
			return c, err
		}
	}
}

// used is the CPU time of this process.
func used() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
