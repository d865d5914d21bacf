package carrying

import (
	"bytes"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/nft"
)

const (
	// renewPeriod is a third of the time after which the kernel forgets.
	renewPeriod = nft.CarryTime / 3
	// retryPeriod is how often a kernel is asked again that refused.
	retryPeriod = time.Second
	// leaveTime is for how long packets are sent on that come here although the address has
	// gone: hosts on the LAN may not have heard of the move. The kernel forgets later.
	leaveTime = 30 * time.Second
	// removeAfter is when tables are removed that are empty.
	removeAfter = time.Minute
	// computePause is how often the connections of an address are looked at that has more than
	// manyFlows of them: each look is at all of them.
	computePause = 250 * time.Millisecond
	manyFlows    = 1000
)

// kernel is what the kernel is to hand to other nodes, and what it has.
type kernel struct {
	flows map[netip.Addr]*flows
	// has is what is installed.
	has map[netip.Addr]map[element]netip.Addr
	// counts are how many of them there are; none if they are to be counted.
	counts map[netip.Addr]*counts
	// later are addresses that are to be looked at when it is time.
	later  map[netip.Addr]bool
	stale  bool // interfaces or nodes have changed
	full   bool // some connections were left out
	made   bool // the tables may be there
	ifaces []nft.CarryInterface
	// nodes are hardware addresses that the earlier agent knew, while there is something of it.
	nodes   []net.HardwareAddr
	renewed time.Time
	retry   time.Time
	needed  time.Time // when they were last
	dirty   map[netip.Addr]bool
	left    map[netip.Addr]time.Time // when addresses have gone
}

// flows are the connections of one address that other nodes have.
type flows struct {
	node    map[conntrack.Conn]string
	counts  map[string]int // by node
	version uint64         // of the own connections
	at      time.Time      // when they were looked at
}

// counts are how many connections of an address are installed.
type counts struct {
	all  int
	node map[string]int
}

// element is one entry in the kernel's table.
type element struct {
	conntrack.Conn
	iface string
}

func (k *kernel) reset() {
	*k = kernel{flows: map[netip.Addr]*flows{}, has: map[netip.Addr]map[element]netip.Addr{}, counts: map[netip.Addr]*counts{}, later: map[netip.Addr]bool{},
		dirty: map[netip.Addr]bool{}, left: map[netip.Addr]time.Time{}}
}

// inherit takes over what an earlier agent of this node has left.
func (c *Carrying) inherit() {
	now := time.Now()
	nodes, there, err := c.o.Carrier.Leftover()
	if err != nil {
		c.o.Log.Warn("tables for connections of other nodes not read", "error", err)
	}
	c.kernel.nodes = nodes
	c.kernel.made, c.kernel.needed = there || err != nil, now // they are removed if nothing comes into them
	left, err := c.o.Carrier.Carried()
	if err != nil {
		c.o.Log.Warn("connections that the previous agent handed to other nodes were not read; the kernel forgets them within a minute", "error", err)
	}
	if len(left) == 0 {
		return
	}
	byVia := map[netip.Addr][]conntrack.Conn{}
	seen := map[conntrack.Conn]bool{}
	for _, e := range left {
		addr := e.Service.Addr()
		if c.kernel.has[addr] == nil {
			c.kernel.has[addr] = map[element]netip.Addr{}
		}
		c.kernel.has[addr][element{e.Conn, e.Interface}] = e.Via
		if !seen[e.Conn] {
			seen[e.Conn] = true
			byVia[e.Via] = append(byVia[e.Via], e.Conn)
		}
	}
	for via, conns := range byVia {
		c.keeper.Inherit(via, conns, now)
	}
	c.o.Log.Info("took over connections from the previous agent on this node", "connections", len(seen))
}

// compute looks again at the connections of addresses that have changed.
func (c *Carrying) compute(now time.Time) {
	for addr, f := range c.kernel.flows {
		if c.lister.Version(addr) != f.version {
			c.keeper.Touch(addr)
		}
	}
	for _, addr := range c.keeper.Changed() {
		c.kernel.later[addr] = true
	}
	for addr := range c.kernel.later {
		if c.postpones(addr, now) {
			continue
		}
		delete(c.kernel.later, addr)
		delete(c.kernel.counts, addr)
		c.kernel.dirty[addr], c.dirty[addr] = true, true
		nodes := c.keeper.Flows(addr, c.lister.Has)
		if len(nodes) == 0 {
			delete(c.kernel.flows, addr)
			continue
		}
		f := &flows{node: nodes, counts: map[string]int{}, version: c.lister.Version(addr), at: now}
		for _, node := range nodes {
			f.counts[node]++
		}
		c.kernel.flows[addr] = f
	}
}

// postpones says whether the many connections of an address were looked at a moment ago. An
// address that is on the move does not wait.
func (c *Carrying) postpones(addr netip.Addr, now time.Time) bool {
	f, r := c.kernel.flows[addr], c.up[addr]
	return f != nil && r != nil && !r.settles && r.up && len(f.node) > manyFlows && now.Sub(f.at) < computePause
}

// wanted are the elements of an address. While a node is looked for, what there is stays; and
// also for a while after the address has gone.
func (c *Carrying) wanted(addr netip.Addr, now time.Time) map[element]netip.Addr {
	f, has := c.kernel.flows[addr], c.kernel.has[addr]
	claim, ok := c.keeper.Own(addr)
	if !ok && len(has) > 0 {
		if c.kernel.left[addr].IsZero() {
			c.kernel.left[addr] = now
		}
		if now.Sub(c.kernel.left[addr]) < leaveTime {
			return has
		}
	}
	delete(c.kernel.left, addr)
	if f == nil || !ok {
		return nil
	}
	out := make(map[element]netip.Addr, len(f.node))
	for conn, node := range f.node {
		for _, iface := range claim.Interfaces {
			e := element{conn, iface}
			via, there := has[e]
			if p := c.paths[pathKey{node, iface, addr.Is6()}]; p != nil && p.known {
				via, there = p.at.Addr, p.good
			}
			if there {
				out[e] = via
			}
		}
	}
	return out
}

// install brings the kernel in line with what is wanted.
func (c *Carrying) install(now time.Time) {
	k := &c.kernel
	switch needed := c.needed(); {
	case needed:
		k.needed = now
	case !k.made:
		clear(k.dirty)
		return
	case now.Sub(k.needed) >= removeAfter:
		if err := c.o.Carrier.Remove(); err != nil {
			c.o.Log.Warn("tables for connections of other nodes not removed", "error", err)
			k.needed = now
			return
		}
		k.made, k.ifaces = false, nil
		clear(k.dirty)
		return
	}
	if now.Before(k.retry) || len(c.nodes) == 0 || !c.prepare(now) {
		return
	}
	renew := now.Sub(k.renewed) >= renewPeriod
	var add, remove []nft.Carried
	changed := map[netip.Addr]map[element]netip.Addr{}
	for addr, at := range k.left {
		if now.Sub(at) >= leaveTime {
			k.dirty[addr] = true
		}
	}
	look := maps.Clone(k.dirty)
	if renew {
		for addr := range k.has {
			if k.left[addr].IsZero() {
				look[addr] = true
			}
		}
	}
	for addr := range look {
		has, wanted := k.has[addr], c.wanted(addr, now)
		for e, via := range wanted {
			if renew || has[e] != via {
				add = append(add, nft.Carried{Conn: e.Conn, Via: via, Interface: e.iface})
			}
		}
		for e, via := range has {
			if _, ok := wanted[e]; !ok {
				remove = append(remove, nft.Carried{Conn: e.Conn, Via: via, Interface: e.iface})
			}
		}
		changed[addr] = wanted
	}
	if len(add)+len(remove) > 0 {
		err := c.o.Carrier.Update(add, remove)
		var out *nft.LeftOutError
		switch {
		case errors.As(err, &out):
			if !k.full {
				c.o.Log.Warn("some connections are not handed to other nodes; their packets are reset", "connections", len(out.Carried), "error", out.Why)
			}
			k.full = true
			for _, one := range out.Carried { // they are tried again with the next change
				delete(changed[one.Service.Addr()], element{one.Conn, one.Interface})
			}
		case err != nil:
			c.o.Log.Warn("connections not handed to other nodes", "error", err)
			c.fail(now)
			return
		case renew:
			k.full = false
		}
	}
	for addr, wanted := range changed {
		delete(k.counts, addr)
		if len(wanted) == 0 {
			delete(k.has, addr)
		} else {
			k.has[addr] = wanted
		}
	}
	clear(k.dirty)
	if renew {
		k.renewed = now
	}
	c.settle(now)
}

// fail has everything written again, after a while.
func (c *Carrying) fail(now time.Time) {
	k := &c.kernel
	k.stale, k.retry = true, now.Add(retryPeriod)
	for addr := range k.has {
		k.dirty[addr] = true
	}
	k.renewed = time.Time{}
}

// needed says whether there is something to be in our tables.
func (c *Carrying) needed() bool {
	needed := len(c.kernel.flows)+len(c.kernel.has) > 0
	for _, r := range c.up {
		needed = needed || r.settles
	}
	return needed
}

// prepare makes the tables, once there is something to be in them.
func (c *Carrying) prepare(now time.Time) bool {
	k := &c.kernel
	names := map[string]bool{}
	for addr := range c.up {
		if claim, ok := c.keeper.Own(addr); ok && claim.Limit > 0 {
			for _, iface := range claim.Interfaces {
				names[iface] = true
			}
		}
	}
	for _, of := range k.has { // an earlier agent's, until it is known what is here
		for e := range of {
			names[e.iface] = true
		}
	}
	var ifaces []nft.CarryInterface
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if l := c.linkOf(name); l != nil {
			ifaces = append(ifaces, nft.CarryInterface{Name: name, MAC: l.MAC, Ports: portsOf(l, c.links)})
		}
	}
	same := slices.EqualFunc(ifaces, k.ifaces, func(a, b nft.CarryInterface) bool {
		return a.Name == b.Name && slices.Equal(a.MAC, b.MAC) && slices.Equal(a.Ports, b.Ports)
	})
	if k.made && same && !k.stale {
		return true
	}
	// What comes from a node was handed on already, also from one that is not known yet.
	if len(k.has) == 0 {
		k.nodes = nil
	}
	macs := slices.Clone(k.nodes)
	for _, of := range c.nodes {
		macs = append(macs, of...)
	}
	slices.SortFunc(macs, func(a, b net.HardwareAddr) int { return bytes.Compare(a, b) })
	macs = slices.CompactFunc(macs, func(a, b net.HardwareAddr) bool { return bytes.Equal(a, b) })
	k.made = true
	written, err := c.o.Carrier.Prepare(ifaces, macs)
	if err != nil {
		c.o.Log.Warn("tables for connections of other nodes not made", "error", err)
		c.fail(now)
		return false
	}
	if k.stale, k.ifaces = false, ifaces; written {
		k.renewed = time.Time{} // elements may be missing
	}
	return true
}

// settle has packets of connections that nobody has listed yet dropped instead of reset, until
// all nodes have listed what they have after the switch.
func (c *Carrying) settle(now time.Time) {
	for addr, r := range c.up {
		if !r.settles {
			continue
		}
		if r.settleUntil.IsZero() {
			r.settleUntil = now.Add(nft.SettleTime)
			if err := c.o.Carrier.Settle(addr, nft.SettleTime); err != nil {
				c.o.Log.Warn("packets of unknown connections are reset while an address moves", "address", addr, "error", err)
			}
		}
		_, final := c.keeper.Heard(addr, now)
		switch {
		case r.up && final && c.found(addr):
			if err := c.o.Carrier.Settled(addr); err != nil {
				c.o.Log.Warn("packets of unknown connections are dropped a little longer", "address", addr, "error", err)
			}
			r.settles = false
		case r.up && !now.Before(r.settleUntil):
			r.settles = false // the kernel has ended it
		}
	}
}

// found says whether all nodes that have connections of addr have been looked for.
func (c *Carrying) found(addr netip.Addr) bool {
	f := c.kernel.flows[addr]
	claim, ok := c.keeper.Own(addr)
	if f == nil || !ok {
		return true
	}
	for node := range f.counts {
		for _, iface := range claim.Interfaces {
			if p := c.paths[pathKey{node, iface, addr.Is6()}]; p == nil || !p.known {
				return false
			}
		}
	}
	return true
}
