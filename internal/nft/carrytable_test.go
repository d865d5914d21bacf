package nft_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/nft"
	"fairlead.io/test/kit/netns"
)

// carryNode is a node with interfaces eth0 and eth1, and a Carrier.
type carryNode struct {
	testing.TB
	*netns.NS
	*nft.CarryTable
}

func newCarryNode(t testing.TB) *carryNode {
	n := &carryNode{TB: t, NS: netns.New(t, "node")}
	n.plug("eth0")
	n.plug("eth1")
	var err error
	if n.CarryTable, err = nft.OpenCarrierIn(n.FD()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func (n *carryNode) plug(iface string) {
	n.NS.Run("ip", "link", "add", iface, "type", "veth", "peer", "name", "other-"+iface)
}

func (n *carryNode) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func (n *carryNode) prepare(ifaces ...string) {
	n.Helper()
	var all []nft.CarryInterface
	for _, name := range ifaces {
		all = append(all, nft.CarryInterface{Name: name})
	}
	_, err := n.Prepare(all, []net.HardwareAddr{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}})
	n.must(err)
}

// has says what the kernel has.
func (n *carryNode) has(want ...nft.Carried) {
	n.Helper()
	got, err := n.Carried()
	n.must(err)
	if !slices.Equal(sortedCarried(got), sortedCarried(want)) {
		n.Errorf("carried are %v, want %v", got, want)
	}
}

// some are n connections that arrive on an interface.
func some(n int, iface string) []nft.Carried {
	all := make([]nft.Carried, n)
	for i := range all {
		client := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 10<<24+uint32(i>>15))))
		all[i] = nft.Carried{
			Conn: conntrack.Conn{Protocol: unix.IPPROTO_TCP, Client: netip.AddrPortFrom(client, uint16(i&0x7fff+1)), Service: netip.AddrPortFrom(vip[0], 80)},
			Via:  own[0], Interface: iface,
		}
	}
	return all
}

// Interfaces come and go, and what is carried on others stays.
func TestInterfacesOfCarriedConnectionsChange(t *testing.T) {
	n := newCarryNode(t)
	a, b := some(1, "eth0")[0], some(2, "eth1")[1]
	n.prepare("eth0", "eth1", "not-there")
	n.must(n.Update([]nft.Carried{a, b}, nil))
	n.has(a, b)
	n.prepare("eth1")
	n.has(b)
	if listed := n.NS.Run("nft", "list", "ruleset"); strings.Contains(listed, "eth0") {
		t.Errorf("there is something of eth0:\n%s", listed)
	}
	if err := n.Update([]nft.Carried{a, some(3, "eth1")[2]}, nil); err == nil || errors.Is(err, nft.ErrTampered) {
		t.Errorf("an interface that is not served: %v", err)
	}
	n.has(b, some(3, "eth1")[2])
	n.must(n.Update(nil, []nft.Carried{a, some(3, "eth1")[2]}))
	n.prepare("eth0", "eth1")
	n.must(n.Update([]nft.Carried{a}, nil))
	n.has(a, b)

	// An interface that is replaced has another number.
	n.NS.Run("ip", "link", "del", "eth0")
	n.NS.Run("ip", "link", "add", "between", "type", "bridge")
	n.plug("eth0")
	n.prepare("eth0", "eth1")
	n.has(a, b)
	listed := n.NS.Run("nft", "list", "table", "netdev", nft.CarriedName)
	for _, want := range []string{`hook ingress device "eth0" priority`, `map @tuples4-eth0 device "eth0"`, `map @pairs6-eth1 device "eth1"`} {
		if !strings.Contains(listed, want) {
			t.Errorf("%q is not there:\n%s", want, listed)
		}
	}

	n.must(n.Remove())
	n.must(n.Remove())
	if listed := n.NS.Run("nft", "list", "ruleset"); listed != "" {
		t.Errorf("there is something left:\n%s", listed)
	}
	n.has()
	n.prepare("eth0")
	n.must(n.Update([]nft.Carried{a}, nil))
	n.has(a)
}

// Somebody flushes all tables, or changes ours.
func TestCarryTablesAreTamperedWith(t *testing.T) {
	n := newCarryNode(t)
	all := some(3, "eth0")
	if err := n.Update(all, nil); !errors.Is(err, nft.ErrTampered) {
		t.Errorf("before Prepare: %v", err)
	}
	for _, tamper := range []string{
		"flush ruleset",
		"delete table netdev " + nft.CarriedName,
		"flush map netdev " + nft.CarriedName + " tuples4-eth0",
		"flush table netdev " + nft.CarriedName,
		"flush table inet " + nft.CarriedName,
	} {
		n.prepare("eth0")
		n.must(n.Update(all, nil))
		n.has(all...)
		before := n.rules()
		n.NS.Run("nft", tamper)
		n.prepare("eth0")
		if err := n.Update(all, nil); err != nil && !errors.Is(err, nft.ErrTampered) {
			t.Errorf("%s: %v", tamper, err)
		}
		n.prepare("eth0")
		n.must(n.Update(all, nil))
		n.has(all...)
		if after := n.rules(); after != before {
			t.Errorf("%s: %s\nwas\n%s", tamper, after, before)
		}
	}
	// Another version had other sets.
	n.must(n.Remove())
	n.NS.Run("nft", "add table netdev "+nft.CarriedName+"; add set netdev "+nft.CarriedName+" moved4 { type ipv6_addr; }; add chain netdev "+nft.CarriedName+" old; "+
		"add map netdev "+nft.CarriedName+" tuples4-eth0 { type inet_proto . ipv4_addr . inet_service . ipv4_addr . inet_service : ipv4_addr; flags timeout; }; "+
		"add element netdev "+nft.CarriedName+" tuples4-eth0 { tcp . 10.0.0.0 . 1 . "+vip[0].String()+" . 80 timeout 50s : "+own[0].String()+" }")
	n.has(all[0])
	n.prepare("eth0")
	n.has(all[0])
	n.must(n.Update(all, nil))
	n.has(all...)
	// Somebody has given one of ours another value.
	n.NS.Run("nft", "flush map netdev "+nft.CarriedName+" tuples4-eth0; add element netdev "+nft.CarriedName+" tuples4-eth0 { tcp . 10.0.0.0 . 1 . "+vip[0].String()+" . 80 : 192.0.2.77 }")
	n.must(n.Update(all, nil))
	n.has(all...)
}

// rules of our tables, without elements.
func (n *carryNode) rules() string {
	var rules []string
	for line := range strings.Lines(n.NS.Run("nft", "-t", "list", "ruleset")) {
		rules = append(rules, line)
	}
	slices.Sort(rules)
	return strings.Join(rules, "")
}

// A list that is too long is cut, and what is there can still be renewed and removed.
func TestCarryLimit(t *testing.T) {
	n := newCarryNode(t)
	n.prepare("eth0")
	const most = 3000
	n.SetCarryLimit(most)
	all := some(most+10, "eth0")
	n.must(n.Update(all[:most-5], nil))
	err := n.Update(all[most-5:], nil)
	var out *nft.LeftOutError
	if !errors.Is(err, nft.ErrTooManyCarried) || !errors.As(err, &out) {
		t.Fatalf("beyond the limit: %v", err)
	}
	got, err := n.Carried()
	n.must(err)
	if len(got) != most {
		t.Errorf("%d are carried", len(got))
	}
	if both := sortedCarried(append(slices.Clone(got), out.Carried...)); !slices.Equal(both, sortedCarried(all)) {
		t.Errorf("%d are carried and %d left out, of %d", len(got), len(out.Carried), len(all))
	}
	n.must(n.Update(got, nil))
	n.must(n.Update(nil, all))
	n.has()
	n.must(n.Update(all[:3], nil))
	n.has(all[:3]...)
}

func TestWhatCannotBeCarried(t *testing.T) {
	n := newCarryNode(t)
	n.prepare("eth0")
	good := some(1, "eth0")[0]
	for what, change := range map[string]func(*nft.Carried){
		"SCTP":                    func(c *nft.Carried) { c.Protocol = unix.IPPROTO_SCTP },
		"no client":               func(c *nft.Carried) { c.Client = netip.AddrPort{} },
		"a client of IPv6":        func(c *nft.Carried) { c.Client = netip.AddrPortFrom(vip[1], 1) },
		"no address":              func(c *nft.Carried) { c.Service = netip.AddrPort{} },
		"a node's IPv6 address":   func(c *nft.Carried) { c.Via = own[1] },
		"no node":                 func(c *nft.Carried) { c.Via = netip.Addr{} },
		"no interface":            func(c *nft.Carried) { c.Interface = "" },
		"a long interface":        func(c *nft.Carried) { c.Interface = "sixteen-letters-" },
		"an address in disguise":  func(c *nft.Carried) { c.Service = netip.AddrPortFrom(netip.AddrFrom16(vip[0].As16()), 80) },
		"an address with a scope": func(c *nft.Carried) { c.Service = netip.AddrPortFrom(vip[1].WithZone("eth0"), 80) },
	} {
		bad := good
		change(&bad)
		var out *nft.LeftOutError
		if err := n.Update([]nft.Carried{bad, good}, nil); !errors.As(err, &out) || !slices.Equal(out.Carried, []nft.Carried{bad}) {
			t.Errorf("%s is accepted: %v", what, bad)
		}
		n.has(good)
		n.must(n.Update(nil, []nft.Carried{bad, good}))
	}
	n.has()
	if _, err := n.Prepare([]nft.CarryInterface{{Name: "eth0", Ports: []string{"eth1"}}}, nil); err == nil {
		t.Error("a bridge without a hardware address is accepted")
	}
	if err := n.Settle(netip.Addr{}, time.Second); err == nil {
		t.Error("no address is settled")
	}
}
