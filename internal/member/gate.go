package member

import (
	"bytes"
	"crypto/cipher"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// A node's agent makes an exchange every few seconds, which takes milliseconds.
	// More streams at a time from one address are somebody else's.
	nodeStreams = 4
	// All addresses that are no node's share one stream. A node that has just been
	// added is among them for a moment.
	strangerStreams = 1
	// maxStreams is for a thousand agents that start together.
	maxStreams = 256
	// unproven is how many bytes are kept of messages that are not known to be a
	// member's.
	unproven = 8 << 20
	// turns is how many messages memberlist handles at a time if they are small. It
	// needs several times a message's size, so one takes a turn for each turnSize.
	turns, turnSize = 16, maxFrame / 16
)

var errCrowded = errors.New("closed to make room for another stream")

// gate lets those streams through to memberlist whose message was made with the
// key, and bounds what all others can make us keep.
//
// Where there are too many, an earlier one is closed, not the newest refused: a
// member's message arrives at once, and who makes us wait may go.
type gate struct {
	aead cipher.AEAD
	node func(netip.Addr) bool // whether a node has the address

	turns    chan struct{}
	next     chan struct{} // who takes several turns takes them together
	checking sync.Mutex    // one at a time: it takes as much memory again

	mu    sync.Mutex
	open  []*stream // the oldest first
	bytes int       // of all streams that are not proven
	ended bool
}

// stream is one connection. Only its first message is read, and only as a whole.
type stream struct {
	net.Conn
	gate  *gate
	from  netip.Addr // of a node; invalid: a stranger's, or one that we have dialled
	ours  bool       // we have dialled it
	limit time.Time  // no deadline is later

	message *bytes.Reader // once it is proven

	// Of the gate's lock.
	bytes  int // kept of its message, until it is proven
	turns  int // that it has
	closed bool
}

func newGate(key []byte, node func(netip.Addr) bool) (*gate, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	return &gate{aead: aead, node: node, turns: make(chan struct{}, turns), next: make(chan struct{}, 1)}, nil
}

// accepted takes in a connection that another host has opened.
func (g *gate) accepted(conn net.Conn) *stream {
	s := &stream{Conn: conn, gate: g, limit: time.Now().Add(exchangeTimeout)}
	if from, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil && g.node(from.Addr().Unmap()) {
		s.from = from.Addr().Unmap()
	}
	most := strangerStreams
	if s.from.IsValid() {
		most = nodeStreams
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	same := func(o *stream) bool { return !o.ours && o.from == s.from }
	g.makeRoom(most, same)
	g.makeRoom(maxStreams, func(o *stream) bool { return !o.ours })
	g.add(s)
	return s
}

// dialled takes in a connection that we have opened: whoever answers there need
// not have the key either.
func (g *gate) dialled(conn net.Conn) *stream {
	s := &stream{Conn: conn, gate: g, ours: true, limit: time.Now().Add(2 * exchangeTimeout)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add(s)
	return s
}

func (g *gate) add(s *stream) {
	g.open = append(g.open, s)
	if g.ended {
		g.drop(s)
	}
}

// close closes all streams, and those that come later.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	for len(g.open) > 0 {
		g.drop(g.open[0])
	}
}

// makeRoom closes the oldest of these streams if there are as many as may be.
func (g *gate) makeRoom(most int, of func(*stream) bool) {
	count, oldest := 0, (*stream)(nil)
	for _, s := range g.open {
		if of(s) {
			count++
			if oldest == nil {
				oldest = s
			}
		}
	}
	if count >= most {
		g.drop(oldest)
	}
}

// reserve makes room for so many bytes of a stream's message. The stream that keeps
// most has to go if there is none: a member's message is seldom that large.
func (g *gate) reserve(s *stream, n int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.closed {
		return errCrowded
	}
	s.bytes += n
	g.bytes += n
	for g.bytes > unproven {
		g.drop(slices.MaxFunc(g.open, func(a, b *stream) int { return a.bytes - b.bytes }))
	}
	if s.closed {
		return errCrowded
	}
	return nil
}

// drop closes a stream and frees what it took.
func (g *gate) drop(s *stream) {
	if s.closed {
		return
	}
	s.closed = true
	g.bytes -= s.bytes
	s.bytes = 0
	g.giveBack(s.turns)
	s.turns = 0
	g.open = slices.DeleteFunc(g.open, func(o *stream) bool { return o == s })
	_ = s.Conn.Close()
}

// prove reads the stream's message, and waits for its turn to be handled. An error
// means that nobody should hear of the stream.
func (s *stream) prove() error {
	if err := s.Conn.SetDeadline(s.limit); err != nil {
		return err
	}
	frame, err := readFrame(s.Conn, func(n int) error { return s.gate.reserve(s, n) })
	if err != nil {
		return err
	}
	s.gate.checking.Lock()
	err = authentic(s.gate.aead, frame)
	s.gate.checking.Unlock()
	if err != nil {
		return err
	}
	took := (len(frame) + turnSize - 1) / turnSize
	took = min(took, turns)
	if !s.gate.takeTurns(took, s.limit) {
		return errCrowded
	}
	s.message = bytes.NewReader(frame)
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	if s.closed {
		s.gate.giveBack(took)
		return errCrowded
	}
	s.turns = took
	s.gate.bytes -= s.bytes
	s.bytes = 0
	return nil
}

// takeTurns waits for n turns.
func (g *gate) takeTurns(n int, until time.Time) bool {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	select {
	case g.next <- struct{}{}:
		defer func() { <-g.next }()
	case <-late.C:
		return false
	}
	for took := range n {
		select {
		case g.turns <- struct{}{}:
		case <-late.C:
			g.giveBack(took)
			return false
		}
	}
	return true
}

func (g *gate) giveBack(n int) {
	for range n {
		<-g.turns
	}
}

// Read reads the message, and nothing that follows it.
func (s *stream) Read(b []byte) (int, error) {
	if s.message == nil {
		if err := s.prove(); err != nil {
			return 0, err
		}
	}
	return s.message.Read(b)
}

// SetDeadline sets the deadline, but never to one after the stream's own:
// memberlist gives each message its time, and who answers slowly has had it.
func (s *stream) SetDeadline(t time.Time) error {
	if t.IsZero() || t.After(s.limit) {
		t = s.limit
	}
	return s.Conn.SetDeadline(t)
}

func (s *stream) Close() error {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	s.gate.drop(s)
	return nil
}

// suspicious says what an operator should know of a stream that was not let through;
// "" for what happens by itself.
func suspicious(err error) string {
	switch {
	case errors.Is(err, errWrongKey):
		return "a host without the gossip key sends messages"
	case errors.Is(err, errNotEncrypted):
		return "a host sends gossip that is not encrypted"
	case errors.Is(err, errLength):
		return "a host announces a gossip message of a length that no agent sends"
	}
	return ""
}
