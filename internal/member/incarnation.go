package member

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
)

// memberlist counts its incarnations from one in every process. Once the others
// have forgotten the last process, what was said of it counts again: that it was
// suspected, that it died. So a process begins with a higher number than any
// earlier one had: the time. memberlist has no option for that, but it contradicts
// a suspicion with a number above the suspicion's. So a process suspects itself.

const (
	// memberlist's types of a suspicion, of several messages in one, and of our own.
	typeSuspect, typeCompound, typeUser = 3, 7, 8
	// raiseTimeout is after which a packet to this member itself is lost.
	raiseTimeout = 100 * time.Millisecond
)

// raiseIncarnation sends the suspicion to this member itself, and waits until memberlist
// has handled it. Others must not hear of this process before: until they know its
// number, what was said of the last one counts. So an answer to ourselves, which memberlist
// handles next, is in the same packet. If that is lost, all is as memberlist alone would
// have it.
func (g *Group) raiseIncarnation(transport memberlist.Transport, key []byte, now time.Time) error {
	aead, err := newAEAD(key)
	if err != nil {
		return err
	}
	raised := make(chan struct{})
	g.mu.Lock()
	_, _ = rand.Read(g.raising[:]) // never fails
	g.raised = raised
	messages := compound(suspicion(g.self, uint32(now.Unix())), append([]byte{typeUser}, encodeAnswer(g.raising, g.self)...))
	g.mu.Unlock()
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce)
	packet := append([]byte{encryptionVersion}, nonce...)
	packet = aead.Seal(packet, nonce, messages, nil)
	if _, err := transport.WriteTo(packet, g.addr.String()); err != nil {
		return fmt.Errorf("send to this member: %w", err)
	}
	lost := time.NewTimer(raiseTimeout)
	defer lost.Stop()
	select {
	case <-raised:
	case <-lost.C:
	}
	return nil
}

// compound is memberlist's message of two.
func compound(a, b []byte) []byte {
	out := []byte{typeCompound, 2}
	out = binary.BigEndian.AppendUint16(out, uint16(len(a)))
	out = binary.BigEndian.AppendUint16(out, uint16(len(b)))
	return append(append(out, a...), b...)
}

// suspicion is memberlist's message, in msgpack: a map of three.
func suspicion(name string, incarnation uint32) []byte {
	text := func(b []byte, s string) []byte {
		if len(s) < 32 {
			return append(append(b, 0xa0|byte(len(s))), s...)
		}
		return append(append(b, 0xd9, byte(len(s))), s...)
	}
	b := []byte{typeSuspect, 0x83}
	b = append(text(b, "Incarnation"), 0xce)
	b = binary.BigEndian.AppendUint32(b, incarnation)
	b = text(text(b, "Node"), name)
	return text(text(b, "From"), name)
}
