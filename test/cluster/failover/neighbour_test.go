package failover

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"

	"fairlead.io/sandbox"
	kit "fairlead.io/test/kit/client"
	"fairlead.io/test/kit/netns"
)

var plugged int // cables to the switch

// host is one on the LAN that is not of the cluster.
type host struct {
	*netns.NS
	nic string
	mac string
}

// stranger adds a host to the LAN, until the test ends.
func stranger(t *testing.T, index int) host {
	t.Helper()
	plugged++
	// A name that no other host's card has: the standard library keeps the numbers
	// of interfaces by name, whatever the namespace.
	h := host{netns.New(t, "stranger"), fmt.Sprintf("card%d", plugged), fmt.Sprintf("02:00:00:00:00:%02x", index)}
	port := fmt.Sprintf("stranger%d", plugged)
	h.Run("ip", "link", "add", h.nic, "address", h.mac, "type", "veth", "peer", "name", port, "netns", cluster.Name+"-"+sandbox.SwitchHost)
	onHost(t, sandbox.SwitchHost, "ip", "link", "set", port, "master", "lan", "up")
	h.Run("ip", "link", "set", h.nic, "addrgenmode", "none", "up")
	for _, addr := range []string{fmt.Sprintf("10.77.0.%d/24", index), fmt.Sprintf("fd77::%d/64", index), fmt.Sprintf("fe80::%d/64", index)} {
		h.Run("ip", "address", "add", addr, "dev", h.nic, "nodad")
	}
	return h
}

// onHost runs a command on a host of the cluster.
func onHost(t *testing.T, host string, command ...string) string {
	t.Helper()
	out, err := cluster.Exec(t.Context(), host, command...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// answer is that of a host that was asked for an address.
type answer struct {
	addr netip.Addr
	mac  string
	at   time.Time
}

// asker is a host on the LAN that knows nobody: it asks for addresses by ARP and
// neighbour solicitations again and again, and notes who answers.
type asker struct {
	t   *testing.T
	ifi *net.Interface
	src netip.Addr
	arp *packet.Conn
	ndp *ndp.Conn

	mu      sync.Mutex
	answers []answer
}

func newAsker(t *testing.T) *asker {
	t.Helper()
	a := &asker{t: t, src: netip.MustParseAddr("10.77.0.99")}
	var err error
	h := stranger(t, 99)
	h.Do(func() {
		if a.ifi, err = net.InterfaceByName(h.nic); err != nil {
			return
		}
		if a.arp, err = packet.Listen(a.ifi, packet.Raw, unix.ETH_P_ARP, nil); err != nil {
			return
		}
		a.ndp, _, err = ndp.Listen(a.ifi, ndp.LinkLocal)
	})
	if err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	readers.Go(a.hearARP)
	readers.Go(a.hearND)
	t.Cleanup(func() {
		_, _ = a.arp.Close(), a.ndp.Close()
		readers.Wait()
	})
	return a
}

func (a *asker) note(addr netip.Addr, mac net.HardwareAddr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers = append(a.answers, answer{addr, mac.String(), time.Now()})
}

func (a *asker) ask(addr netip.Addr) {
	if addr.Is6() {
		if group, err := ndp.SolicitedNodeMulticast(addr); err == nil {
			_ = a.ndp.WriteTo(&ndp.NeighborSolicitation{TargetAddress: addr,
				Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: a.ifi.HardwareAddr}}}, nil, group)
		}
		return
	}
	everybody := net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	b := new(bytes.Buffer)
	b.Write(everybody)
	b.Write(a.ifi.HardwareAddr)
	for _, field := range []uint16{unix.ETH_P_ARP, 1, unix.ETH_P_IP, 0x0604, 1} {
		_ = binary.Write(b, binary.BigEndian, field)
	}
	b.Write(a.ifi.HardwareAddr)
	b.Write(a.src.AsSlice())
	b.Write(make([]byte, 6))
	b.Write(addr.AsSlice())
	_, _ = a.arp.WriteTo(b.Bytes(), &packet.Addr{HardwareAddr: everybody})
}

// hearARP notes replies to us; announcements are to all.
func (a *asker) hearARP() {
	b := make([]byte, 128)
	for {
		n, _, err := a.arp.ReadFrom(b)
		if err != nil {
			return
		}
		if n >= 42 && b[21] == 2 && slices.Equal(net.HardwareAddr(b[32:38]), a.ifi.HardwareAddr) {
			a.note(netip.AddrFrom4([4]byte(b[28:32])), slices.Clone(b[22:28]))
		}
	}
}

func (a *asker) hearND() {
	for {
		m, _, _, err := a.ndp.ReadFrom()
		if err != nil {
			if strings.Contains(err.Error(), "use of closed") {
				return
			}
			continue // what is not ND
		}
		na, ok := m.(*ndp.NeighborAdvertisement)
		if !ok || !na.Solicited {
			continue
		}
		for _, o := range na.Options {
			if l, ok := o.(*ndp.LinkLayerAddress); ok {
				a.note(na.TargetAddress, l.Addr)
			}
		}
	}
}

// since returns the answers from a moment on.
func (a *asker) since(at time.Time) []answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	first, _ := slices.BinarySearchFunc(a.answers, at, func(x answer, at time.Time) int { return x.at.Compare(at) })
	return slices.Clone(a.answers[first:])
}

// census asks for addresses for a while and returns who answers for each. Answers may
// be late on a busy machine: it waits a while for the first one for each address.
func (a *asker) census(addrs ...netip.Addr) map[netip.Addr][]string {
	begin := time.Now()
	tick := time.NewTicker(80 * time.Millisecond)
	defer tick.Stop()
	for range 3 {
		for _, addr := range addrs {
			a.ask(addr)
		}
		<-tick.C
	}
	asked, found := map[netip.Addr]bool{}, map[netip.Addr][]string{}
	for _, addr := range addrs {
		asked[addr] = true
	}
	for last := time.Now().Add(time.Second); ; <-tick.C {
		clear(found)
		for _, x := range a.since(begin) {
			if asked[x.addr] && !slices.Contains(found[x.addr], x.mac) {
				found[x.addr] = append(found[x.addr], x.mac)
			}
		}
		if len(found) == len(asked) || time.Now().After(last) {
			return found
		}
	}
}

// watching asks for addresses every 20 ms until it is told to stop; it then
// says how the answers were: one line for each address, and the longest gap.
func (a *asker) watching(addrs ...netip.Addr) (stop func() (longest time.Duration)) {
	begin := time.Now()
	end := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, addr := range addrs {
				a.ask(addr)
			}
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	})
	return func() (longest time.Duration) {
		close(end)
		asking.Wait()
		for _, addr := range addrs {
			var story []string
			last, who, gap, from := begin, "", time.Duration(0), begin
			for _, x := range append(a.since(begin), answer{addr: addr, mac: "end", at: time.Now()}) {
				if x.addr != addr {
					continue
				}
				if d := x.at.Sub(last); d > gap {
					gap, from = d, last
				}
				if x.mac != who && x.mac != "end" && len(story) < 12 {
					story = append(story, fmt.Sprintf("%s at %v", nodeOf(x.mac), x.at.Sub(begin).Round(time.Millisecond)))
				}
				last, who = x.at, x.mac
			}
			a.t.Logf("%s asked for every 20 ms: answered by %s; longest gap %v at %v", addr, strings.Join(story, ", "), gap.Round(time.Millisecond), from.Sub(begin).Round(time.Millisecond))
			longest = max(longest, gap)
		}
		return longest
	}
}

// nodeOf says whose a hardware address is: its last byte is that of the host's
// addresses.
func nodeOf(mac string) string {
	hw, err := net.ParseMAC(mac)
	if err != nil || hw[1] != 0xfa {
		return mac
	}
	return fmt.Sprintf("node%d", int(hw[5])-10)
}

// failure is a connection to an address that was not made.
type failure struct {
	to netip.AddrPort
	kit.Failure
}

func (f failure) String() string { return f.to.String() + " " + f.Failure.String() }

// connecting makes a new connection to each address every 20 ms until it is told
// to stop; it then says how that went and returns those that have failed.
func connecting(t *testing.T, addrs ...netip.Addr) (stop func() (failed []failure)) {
	t.Helper()
	var to []netip.AddrPort
	for _, addr := range addrs {
		to = append(to, netip.AddrPortFrom(addr, 80))
	}
	connections := kit.Connect(cluster, to...)
	stop = sync.OnceValue(func() (failed []failure) {
		for _, r := range connections.Stop() {
			t.Logf("%s connected to every 20 ms: %d times, %d failed, longest gap %v", r.To, len(r.Made)+len(r.Failed), len(r.Failed), r.Gap.Round(time.Millisecond))
			for _, f := range r.Failed {
				failed = append(failed, failure{r.To, f})
			}
		}
		return failed
	})
	t.Cleanup(func() { stop() })
	return stop
}

// greet connects from the client host and waits for the server's greeting.
func greet(ctx context.Context, addr netip.Addr, port uint16) error {
	return kit.Greet(ctx, cluster, netip.AddrPortFrom(addr, port))
}

// beyondMove returns the failures that one move of each address does not explain: one that
// nobody has planned may reset connections that are under way.
func beyondMove(failed []failure) []failure { return beyond(failed, kit.Reset) }

// beyondHandOver is beyondMove where the former node knew of the move: nothing is reset.
func beyondHandOver(failed []failure) []failure { return beyond(failed, kit.Late) }

func beyond(failed []failure, may func(error) bool) (out []failure) {
	records := map[netip.AddrPort]kit.Record{}
	for _, f := range failed {
		r := records[f.to]
		r.Failed = append(r.Failed, f.Failure)
		records[f.to] = r
	}
	for to, r := range records {
		for _, f := range r.Unexplained(1, may) {
			out = append(out, failure{to, f})
		}
	}
	return out
}
