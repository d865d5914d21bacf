package member

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// Whoever has recorded packets can send them again, also after the member that
// made them has died. memberlist drops what is older than what it knows; but it
// forgets its dead after a while, and a new process knows nobody. So a node that
// memberlist says has joined counts as a member only when it has answered a
// question that was never asked before. Its answer comes with all that it claims.

// The first byte of questions and answers. Reports have format.
const (
	kindQuestion = 3
	kindAnswer   = 4
)

const (
	nonceLen = 16
	// askInterval is how often a node that does not answer is asked again.
	askInterval = 50 * time.Millisecond
	// believed is when a node that does not answer counts anyway: memberlist finds a
	// dead one out in a third of that, so this one answers others, and only packets
	// between the two of us are lost.
	believed = 3 * time.Second
	// maxAsked is how many questions are answered at a time.
	maxAsked = 1024
)

// proves is the NodeMeta of members that answer questions.
var proves = []byte{1}

// doubt is a node that has not answered yet.
type doubt struct {
	addr  netip.AddrPort
	nonce [nonceLen]byte
	since time.Time
}

// question is one that another member has asked us.
type question struct {
	from  netip.AddrPort
	nonce [nonceLen]byte
}

// doubted begins to ask a node. The caller has the lock.
func (g *Group) doubted(name string, addr netip.AddrPort) {
	d := &doubt{addr: addr, since: time.Now()}
	_, _ = rand.Read(d.nonce[:]) // never fails
	g.doubts[name] = d
}

// ask asks all nodes that have not answered, believes those that memberlist has
// found alive for long enough, and says whether any are left.
func (g *Group) ask() bool {
	now := time.Now()
	to := map[*memberlist.Node][]byte{}
	g.mu.Lock()
	for name, d := range g.doubts {
		if now.Sub(d.since) >= believed {
			g.log.Info("a member does not answer directly", "member", name, "address", d.addr)
			g.admit(name, d.addr)
			continue
		}
		to[node(name, d.addr)] = encodeQuestion(question{g.addr, d.nonce})
	}
	left := len(g.doubts) > 0
	g.settle(now)
	g.mu.Unlock()
	for n, m := range to {
		g.send([]*memberlist.Node{n}, [][]byte{m})
	}
	return left
}

// admit makes a node a member. The caller has the lock.
func (g *Group) admit(name string, addr netip.AddrPort) {
	delete(g.doubts, name)
	g.members[name] = addr
	delete(g.departed, name)
	g.book.adopt(name)
	g.book.turned = true
	g.size.Store(int32(len(g.members)))
	if name != g.self {
		g.log.Info("member joined", "member", name, "address", addr.Addr())
	}
	signal(g.changed)
}

// settle says that this member knows what there is to know, when all have answered
// that it has heard of in an exchange. The caller has the lock.
func (g *Group) settle(now time.Time) {
	if !g.synced && !g.exchanged.IsZero() && (len(g.doubts) == 0 || now.Sub(g.exchanged) >= believed) {
		g.synced, g.book.turned = true, true
		signal(g.changed)
	}
}

// asked notes a question; answer answers it.
func (g *Group) asked(q question) {
	g.mu.Lock()
	if len(g.questions) < maxAsked {
		g.questions = append(g.questions, q)
	}
	g.mu.Unlock()
	signal(g.wake)
}

func (g *Group) answer() {
	g.mu.Lock()
	questions := g.questions
	g.questions = nil
	var claims [][]byte
	if len(questions) > 0 {
		claims = split(g.book.whole(g.self, time.Now()))
	}
	g.mu.Unlock()
	for _, q := range questions {
		g.send([]*memberlist.Node{node("", q.from)}, append(slices.Clip(claims), encodeAnswer(q.nonce, g.self)))
	}
}

// answered makes a node a member if the answer is to what we have asked it. An answer to
// ourselves says that all before it was handled.
func (g *Group) answered(nonce [nonceLen]byte, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if name == g.self && g.raised != nil && nonce == g.raising {
		close(g.raised)
		g.raised = nil
		return
	}
	if d := g.doubts[name]; d != nil && subtle.ConstantTimeCompare(nonce[:], d.nonce[:]) == 1 {
		g.admit(name, d.addr)
		g.settle(time.Now())
	}
}

func encodeQuestion(q question) []byte {
	b := append([]byte{kindQuestion}, q.nonce[:]...)
	b = binary.BigEndian.AppendUint16(b, q.from.Port())
	return append(b, q.from.Addr().AsSlice()...)
}

func decodeQuestion(b []byte) (q question, err error) {
	const head = 1 + nonceLen + 2
	if len(b) < head || b[0] != kindQuestion {
		return q, errMalformed
	}
	addr, ok := netip.AddrFromSlice(b[head:])
	if !ok {
		return q, errMalformed
	}
	copy(q.nonce[:], b[1:])
	q.from = netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[1+nonceLen:]))
	return q, nil
}

func encodeAnswer(nonce [nonceLen]byte, name string) []byte {
	return append(append([]byte{kindAnswer}, nonce[:]...), name...)
}

func decodeAnswer(b []byte) (nonce [nonceLen]byte, name string, err error) {
	if len(b) <= 1+nonceLen || len(b) > 1+nonceLen+maxName || b[0] != kindAnswer {
		return nonce, "", errMalformed
	}
	copy(nonce[:], b[1:])
	return nonce, string(b[1+nonceLen:]), nil
}

func node(name string, addr netip.AddrPort) *memberlist.Node {
	return &memberlist.Node{Name: name, Addr: addr.Addr().AsSlice(), Port: addr.Port()}
}
