package member

import (
	"net/netip"
	"testing"
)

// FuzzProof: what can be read as a question or an answer is written as it was read.
func FuzzProof(f *testing.F) {
	f.Add(encodeQuestion(question{from: netip.MustParseAddrPort("192.0.2.1:7947")}))
	f.Add(encodeQuestion(question{from: netip.MustParseAddrPort("[2001:db8::1]:7947")}))
	f.Add(encodeAnswer([nonceLen]byte{1}, "node-1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := decodeQuestion(b); err == nil && string(encodeQuestion(q)) != string(b) {
			t.Errorf("%x was read as %v", b, q)
		}
		if nonce, name, err := decodeAnswer(b); err == nil && string(encodeAnswer(nonce, name)) != string(b) {
			t.Errorf("%x was read as %x of %q", b, nonce, name)
		}
	})
}
