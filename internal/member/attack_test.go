package member_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.io/internal/member"
	"fairlead.io/internal/member/membersim"
)

// victimVar names the address of the member that the test binary runs as instead
// of running tests.
const victimVar = "FAIRLEAD_TEST_VICTIM"

// victim is a member in a process of its own, so that its memory can be measured.
// It writes its address, and then its members whenever they change. It reads the
// addresses of nodes.
func victim(bind string) {
	g, err := member.Start(member.Config{Name: "victim", Bind: netip.MustParseAddrPort(bind), Key: membersim.Key,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(g.Addr())
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			var nodes []netip.AddrPort
			for _, f := range strings.Fields(lines.Text()) {
				nodes = append(nodes, netip.MustParseAddrPort(f))
			}
			go func() { _, _ = g.Join(context.Background(), nodes) }()
		}
		os.Exit(0) // the test is over
	}()
	for range g.Changed() {
		fmt.Println(strings.Join(names(g), " "))
	}
}

// TestStreamsWithoutTheKey: hosts without the key open 64 streams at a time, from a
// node's address and from others, and send what they announce, or nothing, or byte
// by byte. The member stays small, and goes on being one.
func TestStreamsWithoutTheKey(t *testing.T) {
	v := startVictim(t, "127.0.7.10:0")
	b, c := start(t, "b", "127.0.7.11"), start(t, "c", "127.0.7.12")
	_, _ = fmt.Fprintln(v.in, b.Addr(), c.Addr())
	v.until(t, "b c victim")

	stop := make(chan struct{})
	var attackers sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); attackers.Wait() })
	defer end()
	for i := range 64 {
		from := net.IPv4(127, 0, 7, 11) // b's: a pod in the network of its node
		if i%2 == 1 {
			from = net.IPv4(127, 0, 9, byte(i))
		}
		attackers.Go(func() { attack(stop, from, v.addr, i/2) })
	}

	// Members come, are known to all, exchange what they claim, and die.
	for round := range 2 {
		d := start(t, "d", "127.0.7.13")
		joined(t, d, v.addr)
		v.until(t, "b c d victim")
		d.SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: uint64(round + 1), Up: true}})
		eventually(t, b, "claim of d", func() bool {
			claims := b.Claims()[member.Addr(vip)]
			return len(claims) == 1 && claims[0].Epoch == uint64(round+1)
		})
		d.Close()
		v.until(t, "b c victim")
	}
	if peak := v.peak(t); peak >= 100<<20 {
		t.Errorf("the member needed %d MiB", peak>>20)
	} else {
		t.Logf("the member needed %d MiB at most", peak>>20)
	}
	end()
	eventually(t, b, "all are there", has(b, "b", "c", "victim"))
}

// attack opens streams without the key, one after the other.
func attack(stop <-chan struct{}, from net.IP, to netip.AddrPort, kind int) {
	garbage := make([]byte, 1<<16)
	_, _ = rand.Read(garbage)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}, Timeout: time.Second}
	for {
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
		conn, err := dialer.Dial("tcp", to.String())
		if err != nil {
			continue
		}
		done := make(chan struct{})
		go func() {
			select {
			case <-stop:
				_ = conn.SetDeadline(time.Now())
			case <-done:
			}
		}()
		length := []uint32{19 << 20, 4 << 20, 1 << 20, 1<<32 - 1}[kind%4]
		header := binary.BigEndian.AppendUint32([]byte{10}, length)
		switch kind % 3 {
		case 0: // what was announced
			_, err = conn.Write(append(header, 1))
			for sent := 0; err == nil && sent < int(length); sent += len(garbage) {
				_, err = conn.Write(garbage)
			}
		case 1: // byte by byte
			for _, one := range append(header, garbage...) {
				if _, err = conn.Write([]byte{one}); err != nil {
					break
				}
				select {
				case <-stop:
				case <-time.After(50 * time.Millisecond):
					continue
				}
				break
			}
		}
		_, _ = conn.Read(make([]byte, 1)) // until it is closed
		close(done)
		_ = conn.Close()
	}
}

type victimProcess struct {
	cmd  *exec.Cmd
	in   interface{ Write([]byte) (int, error) }
	addr netip.AddrPort

	lines chan string
}

func startVictim(t *testing.T, bind string) *victimProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), victimVar+"="+bind)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v := &victimProcess{cmd: cmd, in: in, lines: make(chan string)}
	ended := make(chan struct{})
	go func() {
		defer close(v.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case v.lines <- lines.Text():
			case <-ended:
			}
		}
	}()
	t.Cleanup(func() {
		close(ended)
		_ = in.Close()
		_ = cmd.Wait()
	})
	if v.addr, err = netip.ParseAddrPort(<-v.lines); err != nil {
		t.Fatal(err)
	}
	return v
}

// until waits for the victim to have these members.
func (v *victimProcess) until(t *testing.T, members string) {
	t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	last := ""
	for last != members {
		select {
		case line, ok := <-v.lines:
			if !ok {
				t.Fatalf("the member ended; its members were %q", last)
			}
			last = line
		case <-limit.C:
			t.Fatalf("its members are %q, not %q", last, members)
		}
	}
}

// peak is the most memory that the victim has had.
func (v *victimProcess) peak(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		if f := strings.Fields(string(line)); f[0] == "VmHWM:" {
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// joined joins by itself, however long it takes.
func joined(t *testing.T, g *member.Group, to netip.AddrPort) {
	t.Helper()
	var err error
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		if _, err = g.Join(t.Context(), []netip.AddrPort{to}); err == nil {
			return
		}
	}
	t.Fatal(err)
}
