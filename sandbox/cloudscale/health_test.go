package cloudscale_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// status of the first member.
func (f *forwarding) status() string { return f.Members("")[0].MonitorStatus }

func (f *forwarding) monitor(body object) object {
	f.t.Helper()
	body["pool"] = id(f.pool)
	return f.must("POST", "load-balancers/health-monitors", body)
}

func TestMembersAreChecked(t *testing.T) {
	f := newForwarding(t, nil)
	a, stopA := named(t, "a")
	b, _ := named(t, "b")
	f.member(a, nil)
	f.member(b, nil)
	_, at := f.listen("tcp", nil)
	if got := f.status(); got != "no_monitor" {
		t.Errorf("without a monitor: %s", got)
	}
	m := f.monitor(object{"type": "tcp"})
	f.eventually("both are up", func() bool { return f.status() == "up" && f.Members("")[1].MonitorStatus == "up" })
	if got := f.LoadBalancers()[0].Status; got != "running" {
		t.Errorf("load balancer: %s", got)
	}
	stopA()
	f.eventually("a is down", func() bool { return f.status() == "down" })
	if got := f.LoadBalancers()[0].Status; got != "degraded" {
		t.Errorf("load balancer: %s", got)
	}
	if got := f.whos(at, 6); got["b"] != 6 {
		t.Errorf("with a down: %v", got)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", a))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f.eventually("a is up again", func() bool { return f.status() == "up" })
	f.must("DELETE", "load-balancers/health-monitors/"+id(m), nil)
	f.eventually("there is no monitor", func() bool { return f.status() == "no_monitor" })
}

// A member that cannot be connected to is passed over even before its check fails.
func TestDeadMemberIsPassedOver(t *testing.T) {
	f := newForwarding(t, nil)
	a, stopA := named(t, "a")
	b, _ := named(t, "b")
	stopA()
	f.member(a, nil)
	f.member(b, nil)
	_, at := f.listen("tcp", nil)
	f.eventually("it listens", func() bool { return f.who(at) != "" })
	if got := f.whos(at, 6); got["b"] != 6 {
		t.Errorf("answers: %v", got)
	}
}

func TestHTTPChecks(t *testing.T) {
	var code atomic.Int32
	var seen atomic.Value
	code.Store(http.StatusOK)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(fmt.Sprintf("%s %s %s %s", r.Method, r.URL.Path, r.Proto, r.Host))
		w.WriteHeader(int(code.Load()))
	})
	for _, test := range []struct {
		kind  string
		check object
		saw   string // what the member sees; $ is its address
		good  int
		bad   int
	}{
		{"http", object{}, "GET / HTTP/1.1 $", 200, 204},
		{"http", object{"version": "1.0", "url_path": "/livez"}, "GET /livez HTTP/1.0 ", 200, 503},
		{"http", object{"host": "shop.example", "method": "HEAD", "expected_codes": []string{"200-204"}}, "HEAD / HTTP/1.1 shop.example", 204, 301},
		{"https", object{"expected_codes": []string{"200", "418"}}, "GET / HTTP/1.1 $", 418, 500},
	} {
		t.Run(test.saw, func(t *testing.T) {
			server := httptest.NewUnstartedServer(handler)
			if test.kind == "https" {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			server.Config.ErrorLog = nil
			at := server.Listener.Addr().(*net.TCPAddr)
			f := newForwarding(t, nil)
			// The health check has a port of its own.
			f.member(1, object{"monitor_port": at.Port})
			code.Store(int32(test.good))
			f.monitor(object{"type": test.kind, "http": test.check, "timeout_s": 100})
			f.eventually("it is up", func() bool { return f.status() == "up" })
			if got := seen.Load(); got != strings.ReplaceAll(test.saw, "$", at.String()) {
				t.Errorf("the member saw %q", got)
			}
			code.Store(int32(test.bad))
			f.eventually("it is down", func() bool { return f.status() == "down" })
			code.Store(int32(test.good))
			f.eventually("it is up again", func() bool { return f.status() == "up" })
		})
	}
}

func TestOtherChecks(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	plain, _ := named(t, "plain") // speaks no TLS, and answers lines only
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	closed, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, test := range []struct {
		kind, pool string
		port       int
		want       string
	}{
		{"tls-hello", "tcp", secure.Listener.Addr().(*net.TCPAddr).Port, "up"},
		{"tls-hello", "tcp", plain, "down"},
		{"ping", "tcp", plain, "up"},
		{"udp-connect", "udp", udp.LocalAddr().(*net.UDPAddr).Port, "up"},
		{"udp-connect", "udp", closed.LocalAddr().(*net.UDPAddr).Port, "down"},
		{"tcp", "udp", plain, "up"},
	} {
		f := newForwarding(t, object{"protocol": test.pool})
		f.member(test.port, nil)
		f.monitor(object{"type": test.kind, "delay_s": 3, "timeout_s": 10})
		f.eventually(test.kind+" finds it "+test.want, func() bool { return f.status() == test.want })
	}
}

func TestPROXYProtocol(t *testing.T) {
	for _, protocol := range []string{"proxy", "proxyv2"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan []byte, 1)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				all, _ := io.ReadAll(conn)
				conn.Close()
				if bytes.HasSuffix(all, []byte("payload")) {
					heard <- all
				}
			}
		}()
		f := newForwarding(t, object{"protocol": protocol})
		f.member(l.Addr().(*net.TCPAddr).Port, nil)
		_, at := f.listen("tcp", nil)
		f.eventually("it listens", func() bool {
			conn, err := net.Dial("tcp", at)
			if err == nil {
				conn.Close()
			}
			return err == nil
		})
		conn := f.dial(at)
		fmt.Fprint(conn, "payload")
		from := conn.LocalAddr().(*net.TCPAddr).AddrPort()
		conn.Close()
		to := netip.MustParseAddrPort(at)
		want := fmt.Sprintf("PROXY TCP4 %s %s %d %d\r\npayload", from.Addr(), to.Addr(), from.Port(), to.Port())
		if protocol == "proxyv2" {
			// By the specification: signature, version and command, family and
			// protocol, length; addresses; ports.
			want = "\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a" + "\x21" + "\x11" + "\x00\x0c" +
				string(from.Addr().AsSlice()) + string(to.Addr().AsSlice()) +
				string([]byte{byte(from.Port() >> 8), byte(from.Port()), byte(to.Port() >> 8), byte(to.Port())}) + "payload"
		}
		if got := string(<-heard); got != want {
			t.Errorf("%s: member heard %q, want %q", protocol, got, want)
		}
		l.Close()
	}
}

func TestUDP(t *testing.T) {
	f := newForwarding(t, object{"protocol": "udp"})
	var members []object
	for _, name := range []string{"a", "b"} {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			buffer := make([]byte, 65535)
			for {
				n, from, err := conn.ReadFrom(buffer)
				if err != nil {
					return
				}
				_, _ = conn.WriteTo(append([]byte(name+" "), buffer[:n]...), from)
			}
		}()
		members = append(members, f.member(conn.LocalAddr().(*net.UDPAddr).Port, nil))
	}
	_, at := f.listen("udp", nil)
	patience := 100 * time.Millisecond
	askUDP := func(conn net.Conn, text string) string {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			return ""
		}
		buffer := make([]byte, 65535)
		n, err := conn.Read(buffer)
		if err != nil {
			return ""
		}
		return string(buffer[:n])
	}
	dial := func() net.Conn {
		conn, err := net.Dial("udp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	f.eventually("it answers", func() bool { return askUDP(dial(), "x") != "" })
	patience = time.Minute
	conn := dial()
	first := askUDP(conn, "x")
	for range 5 {
		if got := askUDP(conn, "x"); got != first {
			t.Errorf("one client: %q, then %q", first, got)
		}
	}
	large := strings.Repeat("y", 9000)
	if got := askUDP(conn, large); len(got) != 9002 {
		t.Errorf("a large datagram: %d bytes", len(got))
	}
	var mu sync.Mutex
	answers := make(map[string]int)
	for range 4 {
		got := askUDP(dial(), "x")
		mu.Lock()
		answers[got]++
		mu.Unlock()
	}
	if answers["a x"] != 2 || answers["b x"] != 2 {
		t.Errorf("several clients: %v", answers)
	}
	for _, m := range members {
		f.patchMember(m, object{"enabled": false})
	}
	patience = 100 * time.Millisecond
	f.eventually("new clients have nobody", func() bool { return askUDP(dial(), "x") == "" })
	patience = time.Minute
	if got := askUDP(conn, "x"); got != first {
		t.Errorf("the client that was there: %q, want %q", got, first)
	}
}

// The PROXY header and what follows are one stream.
func TestPROXYHeaderComesFirst(t *testing.T) {
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
			lines := bufio.NewReader(conn)
			header, _ := lines.ReadString('\n')
			fmt.Fprintf(conn, "you are %s", strings.Fields(header + " - - -")[2:3])
			conn.Close()
		}
	}()
	f := newForwarding(t, object{"protocol": "proxy"})
	f.member(l.Addr().(*net.TCPAddr).Port, nil)
	_, at := f.listen("tcp", nil)
	f.eventually("the member knows the client", func() bool {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			return false
		}
		defer conn.Close()
		answer, _ := io.ReadAll(conn)
		return string(answer) == "you are [127.0.0.1]"
	})
}
