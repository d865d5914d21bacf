package invariant

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"fairlead.io/test/kit/client"
)

func TestConnections(t *testing.T) {
	reset, timeout := fmt.Errorf("read: %w", syscall.ECONNRESET), errors.New("timeout")
	late := fmt.Errorf("greet: %w", client.ErrLate)
	for name, test := range map[string]struct {
		happens func(*Checker)
		want    string
	}{
		"made":   {func(c *Checker) { c.Connected(vip, at(0), at(5), nil) }, ""},
		"failed": {func(c *Checker) { c.Connected(vip, at(0), at(3000), timeout) }, Refused},
		"after a fault": {func(c *Checker) {
			fault(c, 0, 100, Allowance{Silence: time.Second})
			c.Connected(vip, at(1000), at(4000), timeout)
		}, ""},
		"too late": {func(c *Checker) {
			fault(c, 0, 100, Allowance{Silence: time.Second})
			c.Connected(vip, at(1200), at(4000), timeout)
		}, Refused},
		"under way": {func(c *Checker) {
			fault(c, 1000, 1100, Allowance{Silence: time.Second})
			c.Connected(vip, at(900), at(4000), timeout)
		}, ""},
		"before the fault": {func(c *Checker) {
			fault(c, 5000, 5100, Allowance{Silence: time.Second})
			c.Connected(vip, at(900), at(4000), timeout)
		}, Refused},
		"a move is no loss": {func(c *Checker) {
			fault(c, 0, 100, Allowance{Move: time.Second})
			c.Connected(vip, at(500), at(600), timeout)
		}, Refused},
		"reset": {func(c *Checker) { c.Connected(vip, at(0), at(3000), reset) }, Refused},
		"reset in a move": {func(c *Checker) {
			fault(c, 0, 100, Allowance{Move: time.Second})
			c.Connected(vip, at(500), at(600), reset)
		}, ""},
		"reset in a planned move": {func(c *Checker) {
			fault(c, 0, 100, Allowance{Move: time.Second, Planned: true})
			c.Connected(vip, at(500), at(600), reset)
		}, Refused},
		"late in a planned move": {func(c *Checker) {
			fault(c, 0, 100, Allowance{Move: time.Second, Planned: true})
			c.Connected(vip, at(500), at(1600), late)
		}, ""},
		"late in another one": {func(c *Checker) {
			fault(c, 0, 100, Allowance{Move: time.Second})
			c.Connected(vip, at(500), at(1600), late)
		}, Refused},
		"late without a move": {func(c *Checker) { c.Connected(vip, at(500), at(1600), late) }, Refused},
		"reset after a move": {func(c *Checker) {
			fault(c, 0, 100, Allowance{Move: time.Second})
			c.Connected(vip, at(1200), at(1300), reset)
		}, Refused},
		"reset before a move": {func(c *Checker) {
			fault(c, 2000, 2100, Allowance{Move: time.Second})
			c.Connected(vip, at(1200), at(1300), reset)
		}, Refused},
		"reset, no move": {func(c *Checker) {
			fault(c, 0, 5000, Allowance{Two: time.Second, Status: time.Second})
			c.Connected(vip, at(1200), at(1300), reset)
		}, Refused},
		"reset at one moment": {func(c *Checker) {
			fault(c, 0, 100, Allowance{Move: 5 * time.Second})
			c.Connected(vip, at(500), at(600), reset)
			c.Connected(vip, at(600), at(900), reset)
			c.Connected(vip6, at(700), at(900), reset)
		}, ""},
		"reset again and again": {func(c *Checker) {
			fault(c, 0, 100, Allowance{Move: 5 * time.Second})
			c.Connected(vip, at(500), at(600), reset)
			c.Connected(vip, at(700), at(900), reset)
		}, Refused},
		"reset in two moves": {func(c *Checker) {
			fault(c, 0, 100, Allowance{Move: 5 * time.Second})
			fault(c, 650, 660, Allowance{Move: 5 * time.Second})
			c.Connected(vip, at(500), at(600), reset)
			c.Connected(vip, at(700), at(900), reset)
		}, ""},
	} {
		c := newChecker()
		if test.happens(c); broken(c) != test.want {
			t.Errorf("%s: broken is %q, want %q", name, broken(c), test.want)
		}
	}
}

// A move explains a connection that was reset or late only if the address has moved.
func TestExcuses(t *testing.T) {
	for name, test := range map[string]struct {
		planned bool
		err     error
		to      string // who answers afterwards
		want    string
	}{
		"reset, and moved":     {false, fmt.Errorf("read: %w", syscall.ECONNRESET), "b", ""},
		"reset, and not moved": {false, fmt.Errorf("read: %w", syscall.ECONNRESET), "a", Refused},
		"late, and moved":      {true, client.ErrLate, "b", ""},
		"late, and not moved":  {true, client.ErrLate, "a", Refused},
	} {
		c := newChecker()
		answering(c, 0, 2000, "a")
		fault(c, 2000, 2100, Allowance{Move: 5 * time.Second, Planned: test.planned})
		c.Connected(vip, at(2100), at(2200), test.err)
		answering(c, 2200, 6000, test.to)
		if broken(c) != test.want {
			t.Errorf("%s: broken is %q, want %q", name, broken(c), test.want)
		}
	}
}

// An outage is between two connections that were made, whenever it is known of the one
// between them that it failed.
func TestOutage(t *testing.T) {
	for name, order := range map[string][]int{"in order": {0, 1, 2}, "failure known late": {0, 2, 1}} {
		c := newChecker()
		fault(c, 0, 100, Allowance{Silence: 9 * time.Second})
		for _, i := range order {
			switch i {
			case 0:
				c.Connected(vip, at(1000), at(1001), nil)
			case 1:
				c.Connected(vip, at(1500), at(4500), errors.New("timeout"))
				if slices.Index(order, 2) > 1 && c.Working(vip, at(0)) {
					t.Errorf("%s: it works", name)
				}
			case 2:
				c.Connected(vip, at(1800), at(1801), nil)
			}
		}
		if w := c.TakeWorst(); w.Outage != 800*time.Millisecond {
			t.Errorf("%s: the outage is %s", name, w.Outage)
		}
		if w := c.TakeWorst(); w.Outage != 0 {
			t.Errorf("%s: it is told twice", name)
		}
		if !c.Working(vip, at(1700)) || c.Working(vip, at(1900)) {
			t.Errorf("%s: whether it works is not known", name)
		}
	}
}
