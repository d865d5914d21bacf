package member

import (
	"bytes"
	"errors"
	"fmt"
)

// Letters are what the programs that use members tell each other: they go to one member, over
// a stream, encrypted and authenticated as everything else. They may get lost, come late or
// twice, and somebody who has recorded one can send it again.

// The first byte of a letter.
const kindLetter = 5

const (
	// MaxLetter is the longest letter.
	MaxLetter = 1 << 20
	// maxLetters and maxMail bound what waits to be read. What comes then is lost.
	maxLetters, maxMail = 1024, 16 << 20
)

// Letter is a message of another member.
type Letter struct {
	From string
	Body []byte
}

// Post sends a letter. It returns when the network has it, or after two seconds: nil does not
// say that it arrived.
func (g *Group) Post(to string, body []byte) error {
	if len(body) > MaxLetter {
		return fmt.Errorf("send to member %s: %d bytes are too many", to, len(body))
	}
	g.mu.Lock()
	addr, ok := g.members[to]
	g.mu.Unlock()
	if !ok {
		return errors.New("send to member " + to + ": it is not there")
	}
	if err := g.list.SendReliable(node(to, addr), encodeLetter(g.self, body)); err != nil {
		return fmt.Errorf("send to member %s: %w", to, err)
	}
	return nil
}

// Mail has a value when letters have arrived.
func (g *Group) Mail() <-chan struct{} { return g.mail }

// Letters returns those that have arrived since the last call.
func (g *Group) Letters() []Letter {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.letters
	g.letters, g.mailed = nil, 0
	return out
}

// deliver takes in a letter.
func (g *Group) deliver(l Letter) {
	g.mu.Lock()
	fits := len(g.letters) < maxLetters && g.mailed+len(l.Body) <= maxMail
	if fits {
		g.letters = append(g.letters, l)
		g.mailed += len(l.Body)
	}
	g.mu.Unlock()
	if !fits {
		g.log.Debug("letter of a member is lost: too many wait", "member", l.From)
	}
	signal(g.mail)
}

func encodeLetter(from string, body []byte) []byte {
	return append(appendBytes([]byte{kindLetter}, []byte(from)), body...)
}

func decodeLetter(b []byte) (Letter, error) {
	if len(b) == 0 || b[0] != kindLetter {
		return Letter{}, errMalformed
	}
	in := reader{b: b[1:]}
	l := Letter{From: string(in.bytes(maxName))}
	if in.bad || l.From == "" || len(in.b) > MaxLetter {
		return Letter{}, errMalformed
	}
	l.Body = bytes.Clone(in.b)
	return l, nil
}
