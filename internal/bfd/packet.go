package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// State of a session, at one of its ends.
type State uint8

// States, as they are on the wire.
const (
	AdminDown State = iota
	Down
	Init
	Up
)

func (s State) String() string {
	return [...]string{"AdminDown", "Down", "Init", "Up"}[s&3]
}

// Diagnostic says why a session changed its state last.
type Diagnostic uint8

// Diagnostics that we send.
const (
	NoDiagnostic      Diagnostic = 0
	DetectionExpired  Diagnostic = 1
	NeighborSaidDown  Diagnostic = 3
	AdminDownedByUser Diagnostic = 7
)

// diagnostics in words, as RFC 5880 §4.1 has them.
var diagnostics = [...]string{"no diagnostic", "control detection time expired", "echo function failed", "neighbor signaled session down",
	"forwarding plane reset", "path down", "concatenated path down", "administratively down", "reverse concatenated path down"}

func (d Diagnostic) String() string {
	if int(d) < len(diagnostics) {
		return diagnostics[d]
	}
	return fmt.Sprintf("diagnostic %d", uint8(d))
}

// Packet is a control packet (RFC 5880 §4.1).
type Packet struct {
	Diagnostic  Diagnostic
	State       State
	Poll, Final bool
	// Independent says that BFD at the sender goes on without its control plane.
	Independent bool
	Demand      bool
	Multiplier  uint8
	// Mine and Yours are the discriminators of the sender and of the receiver, 0 if unknown.
	Mine, Yours uint32
	// DesiredTx is how often the sender would like to send, RequiredRx and RequiredEchoRx how
	// often it can receive. On the wire they are whole microseconds.
	DesiredTx, RequiredRx, RequiredEchoRx time.Duration
}

// packetLen is the length of a packet without authentication.
const packetLen = 24

// Bits of the second byte.
const (
	bitPoll = 1 << (5 - iota)
	bitFinal
	bitIndependent
	bitAuthentication
	bitDemand
	bitMultipoint
)

// Why a packet is discarded (RFC 5880 §6.8.6).
var (
	ErrShort          = errors.New("it is shorter than a BFD packet")
	ErrVersion        = errors.New("its BFD version is not 1")
	ErrLength         = errors.New("its length field does not fit")
	ErrMultiplier     = errors.New("its detection multiplier is 0")
	ErrMultipoint     = errors.New("it is of a multipoint session")
	ErrDiscriminator  = errors.New("its discriminator is 0")
	ErrUnaddressed    = errors.New("it names no session but is in state Init or Up")
	ErrAuthentication = errors.New("it is authenticated, which is not served")
	ErrOtherSession   = errors.New("it is for another session")
	ErrTTL            = errors.New("its TTL or hop limit is too low")
)

// Decode reads a packet.
func Decode(b []byte) (Packet, error) {
	if len(b) < packetLen {
		return Packet{}, ErrShort
	}
	flags := b[1]
	p := Packet{
		Diagnostic:  Diagnostic(b[0] & 0x1f),
		State:       State(flags >> 6),
		Poll:        flags&bitPoll != 0,
		Final:       flags&bitFinal != 0,
		Independent: flags&bitIndependent != 0,
		Demand:      flags&bitDemand != 0,
		Multiplier:  b[2],
		Mine:        binary.BigEndian.Uint32(b[4:]),
		Yours:       binary.BigEndian.Uint32(b[8:]),
		DesiredTx:   microseconds(b[12:]), RequiredRx: microseconds(b[16:]), RequiredEchoRx: microseconds(b[20:]),
	}
	switch {
	case b[0]>>5 != 1:
		return Packet{}, ErrVersion
	case int(b[3]) < packetLen || int(b[3]) > len(b):
		return Packet{}, ErrLength
	case p.Multiplier == 0:
		return Packet{}, ErrMultiplier
	case flags&bitMultipoint != 0:
		return Packet{}, ErrMultipoint
	case p.Mine == 0:
		return Packet{}, ErrDiscriminator
	case p.Yours == 0 && p.State > Down:
		return Packet{}, ErrUnaddressed
	case flags&bitAuthentication != 0:
		return Packet{}, ErrAuthentication
	}
	return p, nil
}

func microseconds(b []byte) time.Duration {
	return time.Duration(binary.BigEndian.Uint32(b)) * time.Microsecond
}

// Append writes the packet behind b.
func (p *Packet) Append(b []byte) []byte {
	flags := byte(p.State) << 6
	for _, f := range [...]struct {
		set bool
		bit byte
	}{{p.Poll, bitPoll}, {p.Final, bitFinal}, {p.Independent, bitIndependent}, {p.Demand, bitDemand}} {
		if f.set {
			flags |= f.bit
		}
	}
	b = append(b, 1<<5|byte(p.Diagnostic)&0x1f, flags, p.Multiplier, packetLen)
	for _, field := range [...]uint32{p.Mine, p.Yours, wire(p.DesiredTx), wire(p.RequiredRx), wire(p.RequiredEchoRx)} {
		b = binary.BigEndian.AppendUint32(b, field)
	}
	return b
}

func wire(d time.Duration) uint32 {
	return uint32(min(max(d.Microseconds(), 0), math.MaxUint32))
}
