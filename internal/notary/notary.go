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

// Sign returns a note that the object with this UID, with these ports, has the addresses
// since a time. It is "" without a key, or without addresses.
func (n *Notary) Sign(uid types.UID, addresses []netip.Addr, ports []string, since time.Time) string {
	key := n.current()
	if key == nil || len(addresses) == 0 {
		return ""
	}
	head := strconv.FormatInt(since.UnixMilli(), 10) + separator + tag(ports)
	return head + separator + encoding.EncodeToString(mac(key, uid, head, addresses))
}

// Check says whether note was signed for the object and the addresses, in whatever
// order, since when it has them, and whether that was with these ports.
//
// Of two notes on one address, the younger one counts: an old one may have been kept and
// put back. That tells nothing of two that shared the address, and cannot any more since
// the ports of one have changed. So a note of other ports counts for less.
func (n *Notary) Check(uid types.UID, addresses []netip.Addr, ports []string, note string) (since time.Time, same, ok bool) {
	key := n.current()
	at := strings.LastIndex(note, separator)
	if key == nil || at < 0 || len(addresses) == 0 {
		return time.Time{}, false, false
	}
	head := note[:at]
	sum, err := encoding.DecodeString(note[at+len(separator):])
	if err != nil || !hmac.Equal(sum, mac(key, uid, head, addresses)) {
		return time.Time{}, false, false
	}
	when, of, _ := strings.Cut(head, separator)
	milliseconds, err := strconv.ParseInt(when, 10, 64)
	return time.UnixMilli(milliseconds), of == tag(ports), err == nil
}

// tag is short for a list of ports, in whatever order.
func tag(ports []string) string {
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(ports)), "\n")))
	return encoding.EncodeToString(sum[:8])
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
func mac(key []byte, uid types.UID, head string, addresses []netip.Addr) []byte {
	sorted := slices.SortedFunc(slices.Values(addresses), netip.Addr.Compare)
	h := hmac.New(sha256.New, key)
	h.Write([]byte("fairlead.io/given\n" + string(uid) + "\n" + head))
	for _, a := range sorted {
		h.Write([]byte("\n" + a.String()))
	}
	return h.Sum(nil)
}
