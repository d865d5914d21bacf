package member

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

var frameKey = []byte("0123456789abcdef0123456789abcdef")

// sealed makes the message that memberlist would make of text.
func sealed(t testing.TB, text []byte) []byte {
	t.Helper()
	aead, err := newAEAD(frameKey)
	if err != nil {
		t.Fatal(err)
	}
	frame := binary.BigEndian.AppendUint32([]byte{typeEncrypted}, uint32(frameOverhead+len(text)))
	nonce := make([]byte, nonceSize)
	return aead.Seal(append(append(frame, encryptionVersion), nonce...), nonce, text, frame)
}

func TestFrames(t *testing.T) {
	aead, err := newAEAD(frameKey)
	if err != nil {
		t.Fatal(err)
	}
	good := sealed(t, bytes.Repeat([]byte("x"), 100_000))
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	longer := bytes.Clone(good)
	binary.BigEndian.PutUint32(longer[1:], uint32(len(good)-frameHeader-1))
	for name, c := range map[string]struct {
		sent []byte
		want error
	}{
		"a member's":           {good, nil},
		"and more":             {append(bytes.Clone(good), "more"...), nil},
		"changed":              {flipped, errWrongKey},
		"another length":       {longer, errWrongKey},
		"cut off":              {good[:50_000], io.ErrUnexpectedEOF},
		"nothing":              {nil, io.EOF},
		"not encrypted":        {[]byte{6, 0, 0, 0, 100}, errNotEncrypted},
		"compressed":           {[]byte{9, 0, 0, 0, 100}, errNotEncrypted},
		"labelled":             {[]byte{244, 1, 'x', 10, 0}, errNotEncrypted},
		"memberlist's maximum": {[]byte{typeEncrypted, 1, 64, 0, 0}, errLength},
		"too long":             {[]byte{typeEncrypted, 255, 255, 255, 255}, errLength},
		"too short":            {[]byte{typeEncrypted, 0, 0, 0, frameOverhead}, errLength},
	} {
		t.Run(name, func(t *testing.T) {
			frame, err := readFrame(bytes.NewReader(c.sent), func(int) error { return nil })
			if err == nil {
				err = authentic(aead, frame)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// FuzzReadFrame: whatever is announced, the room that is made follows what has
// arrived.
func FuzzReadFrame(f *testing.F) {
	f.Add(sealed(f, []byte("hello")))
	f.Add(sealed(f, bytes.Repeat([]byte("x"), 10_000)))
	f.Add([]byte{typeEncrypted, 0, 64, 0, 0, 1})
	f.Fuzz(func(t *testing.T, sent []byte) {
		room := 0
		frame, err := readFrame(bytes.NewReader(sent), func(n int) error { room += n; return nil })
		if room > max(firstRead, 2*len(sent)) {
			t.Errorf("made room for %d bytes when %d had arrived", room, len(sent))
		}
		if err == nil && !bytes.HasPrefix(sent, frame) {
			t.Error("read something else than was sent")
		}
	})
}
