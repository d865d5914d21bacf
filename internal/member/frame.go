package member

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A stream has one message in each direction, as memberlist writes it: a type, a
// length, the version of the encryption, a nonce, cipher text and tag.
const (
	typeEncrypted     = 10
	encryptionVersion = 1
	frameHeader       = 5 // type and length; authenticated with the rest
	nonceSize         = 12
	frameOverhead     = 1 + nonceSize + 16

	// maxFrame is the most that a member may say in an exchange: some thousand nodes
	// with ten thousand addresses take two megabytes. memberlist would read twenty.
	maxFrame = 4 << 20
	// firstRead is what is read of a message before more room is made for it: room
	// grows with what has arrived, not with what was announced.
	firstRead = 4 << 10
)

var (
	errNotEncrypted = errors.New("the message is not encrypted")
	errLength       = errors.New("the message has an impossible length")
	errWrongKey     = errors.New("the message was made with another key")
)

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use gossip key: %w", err)
	}
	return cipher.NewGCM(block)
}

// readFrame reads one message. Before room is made for so many more bytes, reserve
// is asked. What it returns may be anybody's: see authentic.
func readFrame(from io.Reader, reserve func(bytes int) error) ([]byte, error) {
	frame := make([]byte, frameHeader, firstRead)
	if err := reserve(firstRead); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(from, frame); err != nil {
		return nil, err
	}
	if frame[0] != typeEncrypted {
		return nil, errNotEncrypted
	}
	length := binary.BigEndian.Uint32(frame[1:])
	if length <= frameOverhead || length > maxFrame {
		return nil, fmt.Errorf("%w: %d bytes", errLength, length)
	}
	for total := frameHeader + int(length); len(frame) < total; {
		if len(frame) == cap(frame) {
			room := min(total, 2*cap(frame))
			if err := reserve(room - cap(frame)); err != nil {
				return nil, err
			}
			frame = append(make([]byte, 0, room), frame...)
		}
		read := len(frame)
		frame = frame[:min(total, cap(frame))]
		if _, err := io.ReadFull(from, frame[read:]); err != nil {
			return nil, err
		}
	}
	if frame[frameHeader] != encryptionVersion {
		return nil, errNotEncrypted
	}
	return frame, nil
}

// authentic says whether somebody with the key has made a frame.
func authentic(aead cipher.AEAD, frame []byte) error {
	sealed := frame[frameHeader+1:]
	if _, err := aead.Open(nil, sealed[:nonceSize], sealed[nonceSize:], frame[:frameHeader]); err != nil {
		return errWrongKey
	}
	return nil
}
