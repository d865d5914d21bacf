package member

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// memberlist counts its incarnations from one in every process. Once the others
// have forgotten the last process, what was said of it counts again: that it was
// suspected, that it died. So a process begins with a higher number than any
// earlier one had: the time. memberlist has no option for that, but it contradicts
// a suspicion with a number above the suspicion's. So a process suspects itself.

// typeSuspect is memberlist's type of a suspicion.
const typeSuspect = 3

// raiseIncarnation sends the suspicion to this member itself. If it is lost, all is
// as memberlist alone would have it.
func raiseIncarnation(transport memberlist.Transport, key []byte, name string, self netip.AddrPort, now time.Time) error {
	aead, err := newAEAD(key)
	if err != nil {
		return err
	}
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	packet := append([]byte{encryptionVersion}, nonce...)
	packet = aead.Seal(packet, nonce, suspicion(name, uint32(now.Unix())), nil)
	if _, err := transport.WriteTo(packet, self.String()); err != nil {
		return fmt.Errorf("send to this member: %w", err)
	}
	return nil
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
