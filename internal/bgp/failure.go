package bgp

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"fairlead.io/internal/prose"
)

// Kind of a Failure: what an operator has to look at.
type Kind uint8

const (
	_ Kind = iota
	// Unreachable: no connection to the router, and the kernel says why.
	Unreachable
	// Silent: nothing answers. A wrong or missing password looks the same.
	Silent
	// Closed: the connection ended without a word.
	Closed
	// Refused: the router sent a NOTIFICATION.
	Refused
	// Conflict: the router has another session with this node.
	Conflict
	// Full: the router does not take so many prefixes.
	Full
	// Rejected: the router's OPEN does not fit what is configured here.
	Rejected
	// Garbage: what the router sent is not BGP, or malformed.
	Garbage
	// HoldExpired: the router was silent for the hold time.
	HoldExpired
	// Stuck: the router does not take what we send.
	Stuck
	// Stalled: the router ended the session because this process sent no keepalives while its
	// owner stood still.
	Stalled
	// NoRouter: no router advertisement was heard on the interface.
	NoRouter
	// SeveralRouters: more than one router is on the interface of an unnumbered session.
	SeveralRouters
	// Ended: the owner ended or reset the session.
	Ended
)

var kindNames = [...]string{
	Unreachable: "Unreachable", Silent: "Silent", Closed: "Closed", Refused: "Refused", Conflict: "Conflict", Full: "Full",
	Rejected: "Rejected", Garbage: "Garbage", HoldExpired: "HoldExpired", Stuck: "Stuck", Stalled: "Stalled",
	NoRouter: "NoRouter", SeveralRouters: "SeveralRouters", Ended: "Ended",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Failure is why there is no session.
type Failure struct {
	Kind Kind
	// Code and Subcode of the NOTIFICATION that was received or, if Kind is Rejected, Garbage,
	// HoldExpired or Ended, sent.
	Code, Subcode uint8
	// Words are the router's own: its shutdown communication (RFC 9003).
	Words string
	// Limit is how many prefixes the router takes, if Kind is Full and it says so.
	Limit uint32
	// Text is a sentence for people. It has the router's words in quotes.
	Text string
	// data of the NOTIFICATION to send.
	data []byte
}

func (f *Failure) Error() string { return f.Text }

// sends says whether a NOTIFICATION is due.
func (f *Failure) sends() bool {
	switch f.Kind {
	case Rejected, Garbage, HoldExpired, Ended:
		return f.Code != 0
	default:
		return false
	}
}

// NOTIFICATION codes that are used by name; RFC 4271, 4486, 5492, 9384.
const (
	codeHeader, codeOpen, codeUpdate, codeHold, codeFSM, codeCease, codeRefresh = 1, 2, 3, 4, 5, 6, 7

	headerNotSynchronized, headerLength, headerType = 1, 2, 3

	openVersion, openPeerAS, openID, openParameter, openHold, openCapability = 1, 2, 3, 4, 6, 7

	fsmOpenSent, fsmOpenConfirm, fsmEstablished = 1, 2, 3

	ceaseMaxPrefixes, ceaseShutdown, ceaseDeconfigured, ceaseReset, ceaseRejected, ceaseChange, ceaseCollision, ceaseBFD = 1, 2, 3, 4, 5, 6, 7, 10
)

var codeNames = map[uint8]string{
	codeHeader: "message header error", codeOpen: "OPEN message error", codeUpdate: "UPDATE message error", codeHold: "hold timer expired",
	codeFSM: "state machine error", codeCease: "cease", codeRefresh: "ROUTE-REFRESH message error",
}

var subcodeNames = map[[2]uint8]string{
	{codeHeader, headerNotSynchronized}: "connection not synchronized",
	{codeHeader, headerLength}:          "bad message length",
	{codeHeader, headerType}:            "bad message type",
	{codeOpen, openVersion}:             "unsupported version number",
	{codeOpen, openPeerAS}:              "bad peer AS",
	{codeOpen, openID}:                  "bad BGP identifier",
	{codeOpen, openParameter}:           "unsupported optional parameter",
	{codeOpen, 5}:                       "authentication failure",
	{codeOpen, openHold}:                "unacceptable hold time",
	{codeOpen, openCapability}:          "unsupported capability",
	{codeOpen, 11}:                      "role mismatch",
	{codeUpdate, 1}:                     "malformed attribute list",
	{codeUpdate, 2}:                     "unrecognized well-known attribute",
	{codeUpdate, 3}:                     "missing well-known attribute",
	{codeUpdate, 4}:                     "attribute flags error",
	{codeUpdate, 5}:                     "attribute length error",
	{codeUpdate, 6}:                     "invalid ORIGIN attribute",
	{codeUpdate, 8}:                     "invalid NEXT_HOP attribute",
	{codeUpdate, 9}:                     "optional attribute error",
	{codeUpdate, 10}:                    "invalid network field",
	{codeUpdate, 11}:                    "malformed AS_PATH",
	{codeFSM, fsmOpenSent}:              "unexpected message in OpenSent",
	{codeFSM, fsmOpenConfirm}:           "unexpected message in OpenConfirm",
	{codeFSM, fsmEstablished}:           "unexpected message in Established",
	{codeCease, ceaseMaxPrefixes}:       "maximum number of prefixes reached",
	{codeCease, ceaseShutdown}:          "administrative shutdown",
	{codeCease, ceaseDeconfigured}:      "peer de-configured",
	{codeCease, ceaseReset}:             "administrative reset",
	{codeCease, ceaseRejected}:          "connection rejected",
	{codeCease, ceaseChange}:            "other configuration change",
	{codeCease, ceaseCollision}:         "connection collision resolution",
	{codeCease, 8}:                      "out of resources",
	{codeCease, 9}:                      "hard reset",
	{codeCease, ceaseBFD}:               "BFD down",
}

// CodeText is a code and subcode in words: "OPEN message error, bad peer AS (2/2)".
func CodeText(code, subcode uint8) string {
	name, known := codeNames[code]
	if !known {
		name = "unknown error"
	}
	if sub, known := subcodeNames[[2]uint8{code, subcode}]; known {
		name += ", " + sub
	}
	return fmt.Sprintf("%s (%d/%d)", name, code, subcode)
}

// refusal is what a NOTIFICATION of the router means.
func refusal(code, subcode uint8, data []byte) *Failure {
	f := &Failure{Kind: Refused, Code: code, Subcode: subcode}
	f.Text = "the router ended the session: " + CodeText(code, subcode)
	if code != codeCease {
		return f
	}
	switch subcode {
	case ceaseCollision, ceaseRejected:
		f.Kind = Conflict
		f.Text += ". Another BGP speaker on this node may have the session"
	case ceaseMaxPrefixes:
		f.Kind = Full
		if len(data) >= 7 {
			f.Limit = binary.BigEndian.Uint32(data[3:7])
			f.Text += fmt.Sprintf(". It takes at most %d prefixes of this family", f.Limit)
		}
	case ceaseShutdown, ceaseReset:
		if f.Words = communication(data); f.Words != "" {
			f.Text += ". It says: " + prose.Quote(f.Words)
		}
	}
	return f
}

// communication is the text in the data of a Cease, as of RFC 9003.
func communication(data []byte) string {
	if len(data) == 0 || int(data[0]) > len(data)-1 {
		return ""
	}
	text := data[1 : 1+int(data[0])]
	if !utf8.Valid(text) {
		return ""
	}
	return string(text)
}

// communicate is the data of a Cease with a text, which is cut to what fits.
func communicate(text string) []byte {
	if text == "" {
		return nil
	}
	for len(text) > 255 {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return append([]byte{byte(len(text))}, text...)
}

// farewell is why the owner ends a session.
func farewell(subcode uint8, text string, data []byte) *Failure {
	return &Failure{Kind: Ended, Code: codeCease, Subcode: subcode, Text: text, data: data}
}
