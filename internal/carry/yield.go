package carry

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"fairlead.io/internal/link"
	"fairlead.io/internal/wire"
)

// hear yields the address to another host that says it has it.
func (c *carrier) hear(s wire.Sighting) {
	if s.Addr != c.Address || c.own(s.MAC) {
		return
	}
	c.retry = time.Now().Add(yieldPause + rand.N(yieldJitter))
	if c.yielded {
		return
	}
	c.yielded = true
	c.Log.Warn("another host announces the address: yielding to it", "interface", c.iface, "mac", s.MAC.String())
	c.lower()
}

// own says whether a MAC is one of this node's.
func (c *carrier) own(mac net.HardwareAddr) bool {
	return slices.ContainsFunc(c.Kernel.List(), func(l link.Link) bool { return slices.Equal(l.MAC, mac) })
}

// probe asks whether an address that was yielded is free.
func (c *carrier) probe(ctx context.Context) {
	if !c.yielded || c.probing || c.lan == nil || time.Now().Before(c.retry) {
		return
	}
	c.probing = true
	lan, own := c.lan, c.own
	go func() {
		mac, err := lan.Probe(ctx, c.Address, own)
		if err != nil && mac == nil {
			mac = net.HardwareAddr{} // nobody knows
		}
		c.probed <- mac
	}()
}

// answer takes over what a probe has found: nil is nobody.
func (c *carrier) answer(ctx context.Context, mac net.HardwareAddr) {
	c.probing = false
	if mac != nil || time.Now().Before(c.retry) {
		c.retry = time.Now().Add(yieldPause + rand.N(yieldJitter))
		return
	}
	c.yielded = false
	c.Log.Info("no other host has the address any more: taking it back")
	c.look(ctx)
}
