package agent

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// pairOf is a connection between a holder and its successor.
func pairOf(t *testing.T) (holder, successor *net.UnixConn) {
	t.Helper()
	name := &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "seat")}
	l, err := net.ListenUnix("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if successor, err = net.DialUnix("unix", nil, name); err != nil {
		t.Fatal(err)
	}
	if holder, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = holder.Close(), successor.Close() })
	return holder, successor
}

// What a holder passes on arrives: bytes, more than a socket holds, and descriptors.
func TestPassingOn(t *testing.T) {
	holder, successor := pairOf(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	s := &seat{visitors: []*visitor{{conn: holder}, {conn: holder, proven: true}}}
	data := bytes.Repeat([]byte("x"), 1<<20)
	got := make(chan legacy)
	go func() { got <- receive(successor) }()
	if err := s.pass(data, []int{int(w.Fd())}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Close(), holder.Close()
	passed := <-got
	if !bytes.Equal(passed.data, data) || len(passed.fds) != 1 {
		t.Fatalf("%d bytes and %d descriptors", len(passed.data), len(passed.fds))
	}
	file := os.NewFile(uintptr(passed.fds[0]), "passed")
	if _, err := file.WriteString("y"); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	if n, err := r.Read(make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// frozenRouters have something to hand over.
type frozenRouters struct {
	noRouters
	fds []int
}

func (f frozenRouters) Freeze(context.Context) ([]byte, []int) { return []byte("sessions"), f.fds }

// A successor has the seat as soon as it has the sessions: it does not wait until its predecessor
// has closed everything.
func TestSeatIsHandedOverWithSessions(t *testing.T) {
	holder, successor := newSeatCandidate(t, seatSecret).now(t), newSeatCandidate(t, seatSecret)
	followed := successor.later(t.Context(), t)
	until(t, holder.hasSuccessor)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	passed, err := syscall.Dup(int(w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	p := fakeParts("a", newCluster())
	p.routers = frozenRouters{fds: []int{passed}}
	a := newAgent(t.Context(), p)
	t.Cleanup(a.close)
	a.handOver(holder)
	select {
	case <-time.After(time.Minute):
		t.Fatal("the seat is still taken")
	case next := <-followed:
		defer next.leave()
		defer next.legacy.close()
		if string(next.legacy.data) != "sessions" || len(next.legacy.fds) != 1 {
			t.Errorf("passed on are %q and %d descriptors", next.legacy.data, len(next.legacy.fds))
		}
	}
}

// A holder of an earlier build passes nothing on, and one that dies meanwhile a part: neither
// counts.
func TestNothingPassedOn(t *testing.T) {
	for name, say := range map[string][]byte{"nothing": nil, "a part": {0, 0}, "more than there is": {0, 0, 0, 0, 0, 0, 0, 9, 1}, "descriptors that are not there": {0, 0, 0, 1, 0, 0, 0, 0}, "too much": {0, 0, 0, 0, 255, 255, 255, 255}} {
		t.Run(name, func(t *testing.T) {
			holder, successor := pairOf(t)
			if _, err := holder.Write(say); err != nil {
				t.Fatal(err)
			}
			_ = holder.Close()
			if got := receive(successor); len(got.data) > 0 || len(got.fds) > 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}
