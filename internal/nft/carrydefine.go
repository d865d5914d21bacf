package nft

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	vnetlink "github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"fairlead.io/internal/lb"
)

// Prepare is as Carrier.Prepare.
func (t *CarryTable) Prepare(interfaces []CarryInterface, nodes []net.HardwareAddr) (written bool, err error) {
	t.conn.Lock()
	defer t.conn.Unlock()
	indexes, err := indexesIn(t.netns)
	if err != nil {
		return false, err
	}
	var chains []carryChain
	var served []string
	said := new(strings.Builder)
	interfaces = slices.SortedFunc(slices.Values(interfaces), func(a, b CarryInterface) int { return strings.Compare(a.Name, b.Name) })
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b net.HardwareAddr) int { return bytes.Compare(a, b) })
	for _, i := range interfaces {
		i.Ports = slices.DeleteFunc(slices.Clone(i.Ports), func(port string) bool { return indexes[port] == 0 })
		index := indexes[i.Name]
		if index == 0 || slices.Contains(served, i.Name) {
			continue
		}
		if err := checkName(i.Name); err != nil {
			return false, err
		}
		if len(i.Ports) > 0 && len(i.MAC) != 6 {
			return false, fmt.Errorf("bridge %s has no hardware address", i.Name)
		}
		slices.Sort(i.Ports)
		served = append(served, i.Name)
		chains = append(chains, carryChains(i, index)...)
		_, _ = fmt.Fprintln(said, i.Name, index, i.MAC, i.Ports)
	}
	_, _ = fmt.Fprint(said, nodes)
	if said.String() == t.prepared && t.intactCarry(chains) {
		return false, nil
	}
	t.prepared, t.known = "", false
	if err := t.define(served, chains, nodes); err != nil {
		return true, fmt.Errorf("write tables %s: %w", CarriedName, err)
	}
	t.prepared, t.served = said.String(), served
	return true, nil
}

// indexesIn are the numbers of interfaces by name.
func indexesIn(ns int) (map[string]uint32, error) {
	at := netns.None()
	if ns != 0 {
		at = netns.NsHandle(ns)
	}
	h, err := vnetlink.NewHandleAt(at, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	links, err := h.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	out := make(map[string]uint32, len(links))
	for _, l := range links {
		out[l.Attrs().Name] = uint32(l.Attrs().Index)
	}
	return out, nil
}

// define writes all of it. Rules of all chains are replaced in one transaction, so that each
// packet meets the earlier ones or the new ones; what they need comes first, and what they do
// not need any more goes last.
func (t *CarryTable) define(interfaces []string, chains []carryChain, nodes []net.HardwareAddr) error {
	sets := carrySets(interfaces)
	kept, err := t.replaceOthers(sets)
	if err != nil {
		return err
	}
	if err := t.addAll(sets, chains, nodes); err != nil {
		return t.conn.abandon(err)
	}
	if err := t.conn.commit(); err != nil {
		return err
	}
	for part := range slices.Chunk(kept, batchOfCarried) {
		want, _, _ := encodeCarried(part, nil)
		if err := t.update(nil, slices.Collect(maps.Keys(want)), want); err != nil {
			return err
		}
	}
	if err := writeRules(t.netns, chains); err != nil {
		return err
	}
	return t.removeOthers(sets, chains)
}

func carrySets(interfaces []string) []*nftables.Set {
	sets := []*nftables.Set{nodesSet()}
	for _, f := range lb.Families {
		sets = append(sets, movedSet(f), settling(f))
		for _, i := range interfaces {
			sets = append(sets, tuples(f, i), pairs(f, i), datagrams(f, i))
		}
	}
	for i, s := range sets {
		s.ID = uint32(i + 1)
	}
	return sets
}

func (t *CarryTable) addAll(sets []*nftables.Set, chains []carryChain, nodes []net.HardwareAddr) error {
	t.conn.AddTable(carryTable)
	t.conn.AddTable(settleTable)
	t.conn.AddObj(&nftables.CounterObj{Table: carryTable, Name: counterName})
	for _, s := range sets {
		if err := t.conn.AddSet(s, nil); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	t.conn.FlushSet(nodesSet())
	if err := inChunks(nodesSet(), macs(nodes), t.conn.SetAddElements); err != nil {
		return err
	}
	for i := range chains {
		t.conn.AddChain(&chains[i].Chain)
	}
	settle := settleChain()
	t.conn.AddChain(&settle.Chain)
	t.conn.FlushChain(&settle.Chain)
	for _, exprs := range settle.rules {
		t.conn.AddRule(&nftables.Rule{Table: settleTable, Chain: &settle.Chain, Exprs: exprs})
	}
	return nil
}

// replaceOthers adds the removal of the table to the transaction if another version has made it
// with sets of another kind. It returns what is to be written again. Packets that come before
// that are not carried.
func (t *CarryTable) replaceOthers(sets []*nftables.Set) ([]Carried, error) {
	there, err := t.conn.GetSets(carryTable)
	if err != nil && !isNotFound(err) {
		return nil, fmt.Errorf("list nftables sets: %w", err)
	}
	other := func(s *nftables.Set) bool {
		for _, want := range sets {
			if want.Name == s.Name && want.Table == carryTable {
				return want.KeyType.Bytes != s.KeyType.Bytes || want.DataType.Bytes != s.DataType.Bytes ||
					want.IsMap != s.IsMap || want.HasTimeout != s.HasTimeout
			}
		}
		return false // it is removed at the end
	}
	if !slices.ContainsFunc(there, other) {
		return nil, nil
	}
	if err := t.read(); err != nil {
		return nil, err
	}
	kept := t.decode()
	kept = slices.DeleteFunc(kept, func(c Carried) bool {
		name := carrySetName(kindTuples, lb.FamilyOf(c.Service.Addr()), c.Interface)
		return !slices.ContainsFunc(sets, func(s *nftables.Set) bool { return s.Name == name })
	})
	clear(t.have)
	t.count = 0
	t.conn.DelTable(carryTable)
	return kept, nil
}

// removeOthers removes chains and sets that are not needed.
func (t *CarryTable) removeOthers(sets []*nftables.Set, chains []carryChain) error {
	thereChains, err := t.conn.ListChainsOfTableFamily(carryTable.Family)
	if err != nil {
		return fmt.Errorf("list nftables chains: %w", err)
	}
	thereSets, err := t.conn.GetSets(carryTable)
	if err != nil {
		return fmt.Errorf("list nftables sets: %w", err)
	}
	// Chains with a hook go to those without.
	slices.SortStableFunc(thereChains, func(a, b *nftables.Chain) int {
		return strings.Compare(b.Name, a.Name) // "ingress-" is behind "carry"
	})
	n := 0
	for _, c := range thereChains {
		if c.Table.Name == CarriedName && !slices.ContainsFunc(chains, func(w carryChain) bool { return w.Name == c.Name }) {
			t.conn.DelChain(&nftables.Chain{Table: carryTable, Name: c.Name})
			n++
		}
	}
	for _, s := range thereSets {
		if !slices.ContainsFunc(sets, func(w *nftables.Set) bool { return w.Name == s.Name && w.Table == carryTable }) {
			t.conn.DelSet(&nftables.Set{Table: carryTable, Name: s.Name})
			n++
		}
	}
	if n == 0 {
		return nil
	}
	t.known = false
	return t.conn.commit()
}

// intactCarry says whether the chains have as many rules as they should.
func (t *CarryTable) intactCarry(chains []carryChain) bool {
	for _, c := range chains {
		rules, err := t.conn.GetRules(carryTable, &c.Chain)
		if err != nil || len(rules) != len(c.rules) {
			return false
		}
	}
	settle := settleChain()
	rules, err := t.conn.GetRules(settleTable, &settle.Chain)
	return err == nil && len(rules) == len(settle.rules)
}

// writeRules replaces the rules of chains in one transaction. The library cannot do that: it
// has no expression for forwardTo.
func writeRules(netns int, chains []carryChain) error {
	msgs := []netlink.Message{batchEdge(unix.NFNL_MSG_BATCH_BEGIN)}
	for _, c := range chains {
		m, err := ruleMessage(unix.NFT_MSG_DELRULE, 0, c.Name, nil)
		if err != nil {
			return err
		}
		msgs = append(msgs, m)
	}
	for _, c := range chains {
		for _, r := range c.rules {
			m, err := ruleMessage(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, c.Name, &r)
			if err != nil {
				return err
			}
			msgs = append(msgs, m)
		}
	}
	// The kernel answers to what it cannot do, and to the last one in any case.
	msgs[len(msgs)-1].Header.Flags |= netlink.Acknowledge
	if len(msgs) == 1 {
		return nil
	}
	msgs = append(msgs, batchEdge(unix.NFNL_MSG_BATCH_END))
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := errors.Join(c.SetWriteBuffer(sendBuffer), c.SetReadBuffer(receiveBuffer), c.SetReadDeadline(time.Now().Add(10*time.Second))); err != nil {
		return err
	}
	if _, err := c.SendMessages(msgs); err != nil {
		return err
	}
	_, err = c.Receive()
	return err
}

func batchEdge(kind netlink.HeaderType) netlink.Message {
	data := []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0}
	binary.BigEndian.PutUint16(data[2:], unix.NFNL_SUBSYS_NFTABLES)
	return netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request}, Data: data}
}

// ruleMessage adds a rule to a chain, or removes all of them.
func ruleMessage(kind netlink.HeaderType, flags netlink.HeaderFlags, chain string, r *carryRule) (netlink.Message, error) {
	e := netlink.NewAttributeEncoder()
	e.ByteOrder = binary.BigEndian
	e.String(unix.NFTA_RULE_TABLE, CarriedName)
	e.String(unix.NFTA_RULE_CHAIN, chain)
	if r != nil {
		e.Nested(unix.NFTA_RULE_EXPRESSIONS, r.encode)
	}
	attrs, err := e.Encode()
	if err != nil {
		return netlink.Message{}, fmt.Errorf("rule of chain %s: %w", chain, err)
	}
	family := byte(carryTable.Family)
	return netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | kind, Flags: netlink.Request | flags},
		Data:   append([]byte{family, unix.NFNETLINK_V0, 0, 0}, attrs...),
	}, nil
}

func (r *carryRule) encode(e *netlink.AttributeEncoder) error {
	for _, x := range r.exprs {
		data, err := expr.Marshal(byte(carryTable.Family), x)
		if err != nil {
			return err
		}
		e.Bytes(unix.NLA_F_NESTED|unix.NFTA_LIST_ELEM, data)
	}
	if r.to != nil {
		e.Nested(unix.NFTA_LIST_ELEM, r.to.encode)
	}
	return nil
}

// encode is expression "fwd" (net/netfilter/nft_fwd_netdev.c).
func (to *forwardTo) encode(e *netlink.AttributeEncoder) error {
	protocol := uint32(unix.NFPROTO_IPV4)
	if to.family == lb.IPv6 {
		protocol = unix.NFPROTO_IPV6
	}
	e.String(unix.NFTA_EXPR_NAME, "fwd")
	e.Nested(unix.NFTA_EXPR_DATA, func(e *netlink.AttributeEncoder) error {
		e.Uint32(unix.NFTA_FWD_SREG_DEV, to.device)
		e.Uint32(fwdRegisterOfAddress, to.neigh)
		e.Uint32(fwdProtocol, protocol)
		return nil
	})
	return nil
}

// Attributes that package unix does not have (linux/netfilter/nf_tables.h).
const (
	fwdRegisterOfAddress = 2
	fwdProtocol          = 3
)
