package bgp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.io/internal/lb"
)

// errFreeze ends a session without closing its connection.
var errFreeze = errors.New("handed over")

// Frozen is a session between two processes: all that is needed to continue it. It can be
// written as JSON; the connection travels beside it, as a descriptor. Whoever has a Frozen
// must continue or close it.
type Frozen struct {
	// FD is a descriptor of the connection, in non-blocking mode.
	FD   int `json:"-"`
	Peer Peer
	// Salt and PasswordSum show whether the successor has the same password.
	Salt, PasswordSum []byte

	Agreed agreed
	Since  time.Time
	// Heard is when the router was last heard.
	Heard time.Time
	// Unread bytes of the router.
	Unread []byte `json:",omitempty"`
	// Sent is what the router has been told; Complete, whether that was a whole table.
	Sent     []SentGroup
	Complete bool
	// Again are families that the router asked for and did not get yet.
	Again [len(lb.Families)]bool
}

// SentGroup is prefixes that were announced with the same attributes.
type SentGroup struct {
	Attributes []byte
	Prefixes   []netip.Prefix
}

// Close gives the session up. The router sees a connection that breaks, as after a crash.
func (f *Frozen) Close() error { return unix.Close(f.FD) }

// fits says whether the session is what the peer asks for.
func (f *Frozen) fits(p Peer) bool {
	own, theirs := p.wire(), f.Peer.wire()
	own.Password, theirs.Password = "", ""
	return own == theirs && slices.Equal(f.PasswordSum, passwordSum(f.Salt, p.Password))
}

func passwordSum(salt []byte, password string) []byte {
	sum := sha256.Sum256(append(slices.Clone(salt), password...))
	return sum[:]
}

// freeze stops reading and takes the session out of this process.
func (c *conversation) freeze() *Failure {
	if err := c.conn.SetReadDeadline(time.Now()); err != nil {
		return closed(err)
	}
	for m := range c.heard {
		switch m.kind {
		case typeNotification:
			return readNotification(m.body)
		case typeRefresh:
			c.askedAgain(m.body)
		}
	}
	if !errors.Is(c.readErr, os.ErrDeadlineExceeded) {
		return c.lost()
	}
	fd, err := duplicate(c.conn)
	if err != nil {
		return &Failure{Kind: Closed, Text: fmt.Sprintf("hand over the connection: %v", err)}
	}
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	c.s.frozen = &Frozen{
		FD: fd, Peer: c.peer, Salt: salt, PasswordSum: passwordSum(salt, c.peer.Password),
		Agreed: c.agreed, Since: c.established.Round(0), Heard: c.began.Add(time.Duration(c.last.Load())).Round(0),
		Unread: c.in.unread(), Sent: groupsOf(c.sent), Complete: c.complete, Again: c.again,
	}
	return &Failure{Kind: Ended, Text: "the session was handed over to another process"}
}

// duplicate returns another descriptor of a connection. Unlike that of its File method, it
// leaves the mode alone that both share.
func duplicate(conn net.Conn) (fd int, err error) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return 0, errors.New("the connection has no descriptor")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlled := raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(controlled, err)
}

// resume speaks on a connection that an earlier process began.
func (s *session) resume(ctx context.Context, f *Frozen) (*Failure, time.Duration) {
	conn, err := f.connection()
	if err != nil {
		return &Failure{Kind: Closed, Text: fmt.Sprintf("take over the connection: %v", err)}, 0
	}
	c, err := newConversation(s, s.wanted().peer, conn)
	if err != nil {
		_ = conn.Close()
		return &Failure{Kind: Closed, Text: fmt.Sprintf("take over the connection: %v", err)}, 0
	}
	c.state, c.established, c.agreed, c.complete, c.again = Established, f.Since, f.Agreed, f.Complete, f.Again
	c.sent = sent{}
	for _, g := range f.Sent {
		for _, p := range g.Prefixes {
			c.sent[p] = string(g.Attributes)
		}
	}
	c.in.end = copy(c.in.buf[:], f.Unread)
	c.last.Store(-int64(max(0, time.Since(f.Heard))))
	c.quiet.Store(true)
	s.enter(Established, func(st *Status) {
		st.State, st.Since, st.Established, st.Prefixes = Established, f.Since, 1, len(c.sent)
		c.describe(st)
	})
	return c.speak(ctx, false, keepalive)
}

// connection takes over the descriptor.
func (f *Frozen) connection() (net.Conn, error) {
	file := os.NewFile(uintptr(f.FD), "bgp")
	if file == nil {
		return nil, fmt.Errorf("%d is not a descriptor", f.FD)
	}
	defer func() { _ = file.Close() }()
	return net.FileConn(file)
}

// end says goodbye to a router that nobody announces anything to any more.
func (f *Frozen) end(why *Failure) {
	conn, err := f.connection()
	if err != nil {
		return
	}
	_ = conn.SetWriteDeadline(time.Now().Add(farewellWait))
	_, _ = conn.Write(notification(why))
	_ = conn.Close()
}

func groupsOf(s sent) []SentGroup {
	by := map[string][]netip.Prefix{}
	for p, key := range s {
		by[key] = append(by[key], p)
	}
	var out []SentGroup
	for key, prefixes := range by {
		out = append(out, SentGroup{[]byte(key), ordered(prefixes)})
	}
	slices.SortFunc(out, func(a, b SentGroup) int { return slices.Compare(a.Attributes, b.Attributes) })
	return out
}
