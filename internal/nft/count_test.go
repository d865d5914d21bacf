package nft_test

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"testing"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
	"fairlead.io/test/kit/netns"
)

// long is how long anything may take on a busy machine.
const long = 20 * time.Second

// sendUDP sends a packet of one byte.
func sendUDP(t *testing.T, to netip.Addr, port uint16) {
	t.Helper()
	c, err := net.Dial("udp", netip.AddrPortFrom(to, port).String())
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Error(err)
	}
}

// counted is owning with vip counted.
func counted(ports []lb.Port, interfaces ...string) nft.State {
	s := owning(interfaces...)
	for _, f := range lb.Families {
		s.VIPs[vip[f]] = nft.VIP{Ports: ports, Interfaces: interfaces, Counted: true}
	}
	return s
}

func (l *lab) counts(table *nft.Table) map[nft.Flow]nft.Count {
	l.Helper()
	got, err := table.Counts()
	if err != nil {
		l.Fatal(err)
	}
	return got
}

// What arrives from outside for an address of this node is counted by port, also over
// changes of the ports, another agent, and tables that were rebuilt.
func TestCounts(t *testing.T) {
	l := newLab(t)
	table := l.open()
	l.apply(table, counted(http, "eth0"))
	l.grant(table, "eth0")
	t.Cleanup(keep(t, table, "eth0"))
	dns := http[1]
	want := map[nft.Flow]nft.Count{}
	send := func(f lb.Family, to netip.Addr) {
		l.client.Do(func() { sendUDP(t, to, dns.Number) })
		if to == vip[f] {
			flow := nft.Flow{Addr: to, Port: dns}
			n := want[flow]
			size := uint64(len("x") + 8 + 20)
			if f == lb.IPv6 {
				size += 20
			}
			want[flow] = nft.Count{Packets: n.Packets + 1, Bytes: n.Bytes + size}
		}
	}
	for _, f := range lb.Families {
		want[nft.Flow{Addr: vip[f], Port: dns}] = nft.Count{}
		want[nft.Flow{Addr: vip[f], Port: http[0]}] = nft.Count{}
	}
	check := func(what string) {
		t.Helper()
		netns.Eventually(t, long, what, func() bool { return maps.Equal(l.counts(table), want) })
	}
	check("nothing has arrived")
	for _, f := range lb.Families {
		send(f, vip[f])
		send(f, vip[f])
		send(f, other[f]) // announced by another node, and not counted
		check("two packets")
	}
	// A pod of this node is not outside.
	for _, f := range lb.Families {
		l.node.Do(func() { sendUDP(t, vip[f], dns.Number) })
	}
	check("two packets")

	listed := l.node.Run("nft", "list", "table", "inet", "fairlead")
	for _, f := range lb.Families {
		if !regexp.MustCompile(fmt.Sprintf(`%s \. udp \. 53 counter packets 2 `, vip[f])).MatchString(listed) {
			t.Errorf("not shown for %v:\n%s", vip[f], listed)
		}
	}

	l.apply(table, counted(append([]lb.Port{{Protocol: "TCP", Number: 443}}, http...), "eth0"))
	for _, f := range lb.Families {
		want[nft.Flow{Addr: vip[f], Port: lb.Port{Protocol: "TCP", Number: 443}}] = nft.Count{}
	}
	check("a port has come")
	next := l.open()
	if got := l.counts(next); !maps.Equal(got, want) {
		t.Errorf("the next agent has %v, want %v", got, want)
	}
	if err := table.Rebuild(counted(http, "eth0"), []string{"eth0"}); err != nil {
		t.Fatal(err)
	}
	for _, f := range lb.Families {
		delete(want, nft.Flow{Addr: vip[f], Port: lb.Port{Protocol: "TCP", Number: 443}})
		send(f, vip[f])
	}
	check("rebuilt, and a packet more")
	l.apply(table, owning("eth0"))
	if got := l.counts(table); len(got) > 0 {
		t.Errorf("still counted: %v", got)
	}
}
