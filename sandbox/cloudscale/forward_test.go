package cloudscale_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"fairlead.io/sandbox/cloudscale"
)

// forwarding is a cloud whose load balancers are real, on the loopback device.
type forwarding struct {
	*cloud
	lb, pool object
	vip      string
}

// second is how long the seconds of health monitors are.
const second = 20 * time.Millisecond

func newForwarding(t *testing.T, pool object) *forwarding {
	// Several of these tests may run on one machine.
	pid := os.Getpid()
	prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(64 + pid%64), byte(pid >> 6), 0}), 24)
	o := quick
	o.Public = map[string][]netip.Prefix{"lpg1": {prefix}}
	o.FloatingIPs = []netip.Prefix{netip.MustParsePrefix("127.200.0.0/24")}
	s := cloudscale.New(o)
	t.Cleanup(s.Close)
	f := &forwarding{cloud: &cloud{Simulator: s, t: t}}
	f.network = s.AddNetwork(cloudscale.Network{Name: "lan"})
	f.subnet = s.AddSubnet(cloudscale.Subnet{Network: f.network.UUID, CIDR: netip.MustParsePrefix("127.0.0.0/16")})
	f.lb = f.newLB()
	f.vip = f.lb["vip_addresses"].([]any)[0].(object)["address"].(string)
	body := object{"name": "p", "load_balancer": id(f.lb), "algorithm": "round_robin", "protocol": "tcp"}
	for k, v := range pool {
		body[k] = v
	}
	f.pool = f.must("POST", "load-balancers/pools", body)
	forwarder := s.Forward(cloudscale.ForwardOptions{Second: second})
	t.Cleanup(forwarder.Close)
	return f
}

// member adds one at a port of 127.0.0.1.
func (f *forwarding) member(port int, more object) object {
	f.t.Helper()
	body := object{"name": fmt.Sprint(port), "protocol_port": port, "address": "127.0.0.1", "subnet": f.subnet.UUID}
	for k, v := range more {
		body[k] = v
	}
	return f.must("POST", "load-balancers/pools/"+id(f.pool)+"/members", body)
}

func (f *forwarding) patchMember(m, body object) {
	f.t.Helper()
	f.must("PATCH", "load-balancers/pools/"+id(f.pool)+"/members/"+id(m), body)
}

// listen adds a listener at a port that is free on the VIP, and returns where.
func (f *forwarding) listen(protocol string, more object) (listener object, at string) {
	f.t.Helper()
	var port int
	if protocol == "udp" {
		l, err := net.ListenPacket("udp", f.vip+":0")
		if err != nil {
			f.t.Fatal(err)
		}
		port = l.LocalAddr().(*net.UDPAddr).Port
		l.Close()
	} else {
		l, err := net.Listen("tcp", f.vip+":0")
		if err != nil {
			f.t.Fatal(err)
		}
		port = l.Addr().(*net.TCPAddr).Port
		l.Close()
	}
	body := object{"name": "l", "pool": id(f.pool), "protocol": protocol, "protocol_port": port}
	for k, v := range more {
		body[k] = v
	}
	return f.must("POST", "load-balancers/listeners", body), fmt.Sprintf("%s:%d", f.vip, port)
}

// eventually waits until something is so.
func (f *forwarding) eventually(what string, is func() bool) {
	f.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			f.t.Fatalf("not after a minute: %s", what)
		}
	}
}

// named is a server that says its name and the line that it has read, for every line.
func named(t *testing.T, name string) (port int, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { conn.Close() })
			go func() {
				defer conn.Close()
				lines := bufio.NewReader(conn)
				for {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					fmt.Fprintf(conn, "%s %s", name, line)
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, func() { l.Close() }
}

// ask sends a line on a connection and returns the answer.
func ask(conn net.Conn, line string) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer), err
}

// who answers a new connection; empty if nobody does.
func (f *forwarding) who(at string) string {
	conn, err := net.Dial("tcp", at)
	if err != nil {
		return ""
	}
	defer conn.Close()
	answer, err := ask(conn, "hello")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(answer, " hello")
}

// whos counts who answers n connections.
func (f *forwarding) whos(at string, n int) map[string]int {
	counts := make(map[string]int)
	for range n {
		counts[f.who(at)]++
	}
	return counts
}

func (f *forwarding) dial(at string) net.Conn {
	f.t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	return conn
}

func TestForwarding(t *testing.T) {
	f := newForwarding(t, nil)
	a, _ := named(t, "a")
	b, _ := named(t, "b")
	first := f.member(a, nil)
	f.member(b, nil)
	listener, at := f.listen("tcp", nil)
	f.eventually("it answers", func() bool { return f.who(at) != "" })
	if got := f.whos(at, 10); got["a"] != 5 || got["b"] != 5 {
		t.Errorf("in turn: %v", got)
	}

	// Who is there already stays, whatever becomes of the member.
	onA := f.dial(at)
	answer, err := ask(onA, "one")
	for err == nil && answer != "a one" {
		onA = f.dial(at)
		answer, err = ask(onA, "one")
	}
	f.patchMember(first, object{"enabled": false})
	f.eventually("a is disabled", func() bool { return f.whos(at, 4)["b"] == 4 })
	if answer, err := ask(onA, "two"); answer != "a two" {
		t.Errorf("after disabling: %q, %v", answer, err)
	}
	f.patchMember(first, object{"enabled": true})
	f.eventually("a is enabled", func() bool { return f.whos(at, 4)["a"] == 2 })
	f.must("DELETE", "load-balancers/pools/"+id(f.pool)+"/members/"+id(first), nil)
	f.eventually("a is removed", func() bool { return f.whos(at, 4)["b"] == 4 })
	if answer, err := ask(onA, "three"); answer != "a three" {
		t.Errorf("after removing: %q, %v", answer, err)
	}

	// Another port.
	f.must("PATCH", "load-balancers/listeners/"+id(listener), object{"protocol_port": freePort(t, f.vip)})
	f.eventually("the old port is closed", func() bool { return f.who(at) == "" })
	moved := fmt.Sprintf("%s:%d", f.vip, f.Listeners()[0].ProtocolPort)
	f.eventually("the new port answers", func() bool { return f.who(moved) == "b" })
	if answer, err := ask(onA, "four"); answer != "a four" {
		t.Errorf("after moving: %q, %v", answer, err)
	}

	// The end of the load balancer ends everything.
	f.must("DELETE", "load-balancers/"+id(f.lb), nil)
	f.eventually("nobody listens", func() bool { return f.who(moved) == "" })
	f.eventually("its connections end", func() bool {
		_, err := ask(onA, "five")
		return err != nil
	})
}

func freePort(t *testing.T, address string) int {
	t.Helper()
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Half a connection may end before the other.
func TestHalfClosedConnection(t *testing.T) {
	f := newForwarding(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all, _ := io.ReadAll(conn)
			fmt.Fprintf(conn, "%d bytes", len(all))
			conn.Close()
		}
	}()
	f.member(l.Addr().(*net.TCPAddr).Port, nil)
	_, at := f.listen("tcp", nil)
	f.eventually("it listens", func() bool {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	conn := f.dial(at).(*net.TCPConn)
	if _, err := conn.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	conn.CloseWrite()
	if got, err := io.ReadAll(conn); string(got) != "1048576 bytes" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAlgorithms(t *testing.T) {
	for _, algorithm := range []string{"source_ip", "least_connections"} {
		t.Run(algorithm, func(t *testing.T) {
			f := newForwarding(t, object{"algorithm": algorithm})
			for _, name := range []string{"a", "b", "c"} {
				port, _ := named(t, name)
				f.member(port, nil)
			}
			_, at := f.listen("tcp", nil)
			f.eventually("it answers", func() bool { return f.who(at) != "" })
			if algorithm == "source_ip" {
				if got := f.whos(at, 9); len(got) != 1 {
					t.Errorf("one client: %v", got)
				}
				return
			}
			counts := make(map[string]int)
			for range 9 { // which stay open
				answer, err := ask(f.dial(at), "x")
				if err != nil {
					t.Fatal(err)
				}
				counts[answer]++
			}
			// One of those before may still have been counted at the beginning.
			for name, n := range counts {
				if n < 2 || n > 4 {
					t.Errorf("%s has %d of 9: %v", name, n, counts)
				}
			}
		})
	}
}

func TestAllowedCIDRs(t *testing.T) {
	f := newForwarding(t, nil)
	port, _ := named(t, "a")
	f.member(port, nil)
	listener, at := f.listen("tcp", object{"allowed_cidrs": []string{"10.0.0.0/8", "127.0.0.0/8"}})
	f.eventually("it answers", func() bool { return f.who(at) == "a" })
	f.must("PATCH", "load-balancers/listeners/"+id(listener), object{"allowed_cidrs": []string{"10.0.0.0/8"}})
	f.eventually("it refuses", func() bool { return f.who(at) == "" })
	f.must("PATCH", "load-balancers/listeners/"+id(listener), object{"allowed_cidrs": []string{}})
	f.eventually("it answers again", func() bool { return f.who(at) == "a" })
}

func TestIdleConnectionsEnd(t *testing.T) {
	f := newForwarding(t, nil)
	port, _ := named(t, "a")
	f.member(port, nil)
	const idle = 200 * time.Millisecond
	for _, timeout := range []string{"timeout_client_data_ms", "timeout_member_data_ms"} {
		_, at := f.listen("tcp", object{timeout: idle.Milliseconds()})
		f.eventually("it answers", func() bool { return f.who(at) == "a" })
		var conn net.Conn
		f.eventually("it lives as long as it is used", func() bool {
			conn = f.dial(at)
			last := time.Now()
			for range 4 {
				answer, err := ask(conn, "x")
				if late := time.Since(last) > idle/2+idle/4; answer != "a x" && !late {
					t.Errorf("%s: %q, %v", timeout, answer, err)
				} else if late { // this machine is too busy to use it in time
					return false
				}
				last = time.Now()
				<-time.After(idle / 2)
			}
			return true
		})
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("%s: the idle connection is still there: %v", timeout, err)
		}
	}
}

func TestFloatingIPForwards(t *testing.T) {
	f := newForwarding(t, nil)
	port, _ := named(t, "a")
	f.member(port, nil)
	listener, _ := f.listen("tcp", nil)
	fip := f.must("POST", "floating-ips", object{"ip_version": 4, "load_balancer": id(f.lb)})
	address, _, _ := strings.Cut(fip["network"].(string), "/")
	at := fmt.Sprintf("%s:%v", address, listener["protocol_port"])
	f.eventually("it answers at the floating IP", func() bool { return f.who(at) == "a" })
	f.must("DELETE", "floating-ips/"+address, nil)
	f.eventually("it does not any more", func() bool { return f.who(at) == "" })
}

// A port that is in use is taken when it is free.
func TestPortInUse(t *testing.T) {
	f := newForwarding(t, nil)
	port, _ := named(t, "a")
	f.member(port, nil)
	blocker, err := net.Listen("tcp", f.vip+":0")
	if err != nil {
		t.Fatal(err)
	}
	f.must("POST", "load-balancers/listeners", object{"name": "l", "pool": id(f.pool), "protocol": "tcp", "protocol_port": blocker.Addr().(*net.TCPAddr).Port})
	blocker.Close()
	f.eventually("it answers", func() bool { return f.who(blocker.Addr().String()) == "a" })
}
