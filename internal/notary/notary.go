// Package notary tells what a Fairlead controller wrote on an object from what
// anybody else wrote there: a note has a MAC under a key that only controllers have.
// The key is in a Secret.
package notary

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Notary signs and checks notes about the addresses that an object has. Without a key
// it signs nothing, and believes nothing. It is safe for concurrent use.
type Notary struct {
	mu  sync.RWMutex
	key []byte
	// first says that no controller has finished signing what it found.
	first bool
}

// First says whether this is the first start: what was there before the key has no
// notes yet.
func (n *Notary) First() bool {
	if n == nil {
		return false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.first
}

// Sign returns a note that the object with this UID has the addresses since a time. It
// is "" without a key, or without addresses.
func (n *Notary) Sign(uid types.UID, addresses []netip.Addr, since time.Time) string {
	key := n.current()
	if key == nil || len(addresses) == 0 {
		return ""
	}
	at := strconv.FormatInt(since.UnixMilli(), 10)
	return at + separator + encoding.EncodeToString(mac(key, uid, at, addresses))
}

// Check says whether note was signed for the object and the addresses, in whatever
// order, and since when it has them. Of two notes on one address, the younger one
// counts: an old one may have been kept and put back.
func (n *Notary) Check(uid types.UID, addresses []netip.Addr, note string) (since time.Time, ok bool) {
	key := n.current()
	at, text, found := strings.Cut(note, separator)
	if key == nil || !found || len(addresses) == 0 {
		return time.Time{}, false
	}
	sum, err := encoding.DecodeString(text)
	milliseconds, wrong := strconv.ParseInt(at, 10, 64)
	if err != nil || wrong != nil || !hmac.Equal(sum, mac(key, uid, at, addresses)) {
		return time.Time{}, false
	}
	return time.UnixMilli(milliseconds), true
}

func (n *Notary) current() []byte {
	if n == nil {
		return nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.key
}

const separator = "."

var encoding = base64.RawURLEncoding.Strict()

// mac authenticates what a note says. No part can contain a line break, so that each
// is unambiguous.
func mac(key []byte, uid types.UID, at string, addresses []netip.Addr) []byte {
	sorted := slices.SortedFunc(slices.Values(addresses), netip.Addr.Compare)
	h := hmac.New(sha256.New, key)
	h.Write([]byte("fairlead.io/given\n" + string(uid) + "\n" + at))
	for _, a := range sorted {
		h.Write([]byte("\n" + a.String()))
	}
	return h.Sum(nil)
}
