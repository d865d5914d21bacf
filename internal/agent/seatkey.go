package agent

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// seatKey proves to another process on this node that this one is an agent, and
// that it is the one that the other has connected to:
//
//	holder    → successor: seatHello, nonce of the holder
//	successor → holder:    nonce of the successor, its proof
//	holder    → successor: its proof
//
// A proof is an HMAC of the role, the node, its boot and network namespace, the
// name of the socket and both nonces. So none can be used twice, elsewhere, in the
// other role, or be passed on between two names.
type seatKey struct {
	node  string
	place string // of this node only, and of this boot
	mac   []byte
}

// seatHello begins what a holder says. The number is that of the protocol.
const seatHello = "fairlead seat 2\n"

const (
	seatNonce = 32
	// maxSeatNode is how much of a node's name fits: the kernel takes 108 bytes in all.
	maxSeatNode = 74
	// helloPause is how long a holder waits before it speaks. A successor of an
	// earlier build expects silence, and would connect again at once.
	helloPause = 100 * time.Millisecond
	// handshakeTime is for what should take a millisecond.
	handshakeTime = 2 * time.Second
)

var (
	errSilent   = errors.New("it says nothing")
	errUnproven = errors.New("it does not have the gossip key")
)

// newSeatKey derives the key of this node's seat from the gossip key.
func newSeatKey(gossip []byte, node string) seatKey {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	network, _ := os.Readlink("/proc/self/ns/net")
	h := hmac.New(sha256.New, gossip)
	h.Write([]byte("fairlead seat"))
	return seatKey{node: node, place: strings.TrimSpace(string(boot)) + " " + network, mac: h.Sum(nil)}
}

// name returns the seat's name number i. The first is the one that agents have
// always had.
func (k seatKey) name(i int) *net.UnixAddr {
	node := k.node
	if len(node) > maxSeatNode {
		whole := sha256.Sum256([]byte(node))
		node = node[:maxSeatNode-17] + "-" + hex.EncodeToString(whole[:8])
	}
	name := "@fairlead-agent-" + node
	if i > 0 {
		name += "-" + hex.EncodeToString(k.sign("name", fmt.Sprint(i))[:8])
	}
	return &net.UnixAddr{Net: "unix", Name: name}
}

func (k seatKey) sign(fields ...string) []byte {
	h := hmac.New(sha256.New, k.mac)
	for _, f := range append([]string{k.node, k.place}, fields...) {
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(f))))
		_, _ = io.WriteString(h, f)
	}
	return h.Sum(nil)
}

// proveHolder is the holder's side.
func (k seatKey) proveHolder(conn *net.UnixConn, socket string) error {
	early := make([]byte, 1)
	_ = conn.SetReadDeadline(time.Now().Add(helloPause))
	if n, _ := conn.Read(early); n > 0 { // it speaks first
		return errUnproven
	}
	_ = conn.SetDeadline(time.Now().Add(handshakeTime))
	defer func() { _ = conn.SetDeadline(time.Time{}) }()
	ours, theirs, proof := newNonce(), make([]byte, seatNonce), make([]byte, sha256.Size)
	if _, err := io.WriteString(conn, seatHello+string(ours)); err != nil {
		return errSilent // it has gone
	}
	if n, err := io.ReadFull(conn, theirs); n == 0 {
		return errSilent
	} else if err != nil {
		return errUnproven
	}
	if _, err := io.ReadFull(conn, proof); err != nil {
		return errUnproven
	}
	if !hmac.Equal(proof, k.sign("successor", socket, string(ours), string(theirs))) {
		return errUnproven
	}
	if _, err := conn.Write(k.sign("holder", socket, string(ours), string(theirs))); err != nil {
		return errUnproven
	}
	return nil
}

// proveSuccessor is the successor's side.
func (k seatKey) proveSuccessor(conn *net.UnixConn, socket string) error {
	_ = conn.SetDeadline(time.Now().Add(handshakeTime))
	defer func() { _ = conn.SetDeadline(time.Time{}) }()
	hello, ours, proof := make([]byte, len(seatHello)+seatNonce), newNonce(), make([]byte, sha256.Size)
	if n, err := io.ReadFull(conn, hello); err != nil || string(hello[:len(seatHello)]) != seatHello {
		if n == 0 {
			return errSilent
		}
		return errUnproven
	}
	theirs := hello[len(seatHello):]
	if _, err := conn.Write(append(ours, k.sign("successor", socket, string(theirs), string(ours))...)); err != nil {
		return errUnproven
	}
	if _, err := io.ReadFull(conn, proof); err != nil {
		return errUnproven
	}
	if !hmac.Equal(proof, k.sign("holder", socket, string(theirs), string(ours))) {
		return errUnproven
	}
	return nil
}

func newNonce() []byte {
	nonce := make([]byte, seatNonce)
	_, _ = rand.Read(nonce) // never fails
	return nonce
}

// sameUser returns an error if the other side runs as another user, as no agent
// does.
func sameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return credErr
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("a process of user %d, not of this agent's, is at the other end", cred.Uid)
	}
	return nil
}
