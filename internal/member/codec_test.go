package member

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var compare = cmp.Options{
	cmp.AllowUnexported(report{}, entry{}, stake{}, info{}),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

var samples = map[string]report{
	"least": {node: "a", gone: -1},
	"changes": {node: "node-1.example", incarnation: 1 << 60, after: 5, floor: 9, gone: -1, claims: []entry{
		{Addr(vip), stake{seq: 6, epoch: 1 << 40, up: true}}, {Addr(vip6), stake{seq: 8, epoch: 3}}, {Addr(vip2), stake{seq: 9, released: true}}, {Lease("IPv4 0123456789abcdef"), stake{seq: 7, epoch: 2, up: true}},
		{Addr(vip), stake{seq: 9, epoch: 1, refused: true}},
	}},
	"of another kind": {node: "a", incarnation: 7, whole: true, floor: 3, gone: -1, info: info{seq: 3, meta: Meta{LastResort: true,
		Links:    []Link{{Name: "eth0", V6: true, NamedV6: true, NoV4: true}},
		MACs:     []net.HardwareAddr{{2, 0, 0, 0, 0, 1}},
		Silences: []Silence{{Link: "eth0", Why: "net.ipv4.conf.all.arp_ignore is 3"}, {Link: "e", V6: true, Why: "x"}}}}},
	"whole": {node: "a", incarnation: 7, whole: true, floor: 300, gone: 90 * time.Second,
		info: info{seq: 300, settled: true, left: true, meta: Meta{Eligible: true, Leaving: true, Links: ready.Links, MACs: []net.HardwareAddr{
			{2, 0, 0, 0, 0, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, // of InfiniBand
		}}},
		claims: []entry{{Addr(vip), stake{seq: 1, epoch: 1, up: true}}},
	},
}

func TestMessagesSurviveTheWire(t *testing.T) {
	var all []report
	for name, want := range samples {
		got, err := decode(encode(want))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, compare); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		all = append(all, want)
	}
	got, synced, err := decodeExchange(encodeExchange(all, true))
	if err != nil || !synced {
		t.Fatalf("synced %t, error %v", synced, err)
	}
	if diff := cmp.Diff(all, got, compare); diff != "" {
		t.Error(diff)
	}
}

func TestTruncatedMessagesAreRefused(t *testing.T) {
	m := encode(samples["whole"])
	for n := range len(m) {
		// Entries have no count, so a message may end between two of them.
		if r, err := decode(m[:n]); err == nil && len(r.claims) != 0 {
			t.Errorf("%d of %d bytes were taken for a message", n, len(m))
		}
	}
}

// What cannot be the key of a claim is not read, however it got into a message.
func TestKeysThatAreRefused(t *testing.T) {
	mapped := netip.AddrFrom16(vip.As16())
	for name, k := range map[string]Key{"nothing": {}, "IPv4 in IPv6": Addr(mapped), "a name too long": Lease(strings.Repeat("x", maxLease+1))} {
		if k.valid() {
			t.Errorf("%s is valid", name)
		}
		if r, err := decode(encode(report{node: "a", floor: 1, gone: -1, claims: []entry{{k, stake{seq: 1}}}})); err == nil {
			t.Errorf("%s was read: %+v", name, r)
		}
	}
	b := newBook("a", 1, Meta{})
	b.claim([]Claim{{Key: Addr(mapped), Epoch: 1}, {Key: Lease(strings.Repeat("x", maxLease+1)), Epoch: 1}})
	if all := b.all(); len(all) != 1 || len(all[Addr(vip)]) != 1 {
		t.Errorf("claimed %v", all)
	}
}

// Many claims make many messages; all fit into a packet, and whoever has read
// them in whatever order knows as much as the sender.
func TestSplit(t *testing.T) {
	var claims []Claim
	for i := range 1000 {
		claims = append(claims, up(netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1)), 1<<40))
	}
	a := newSpeaker("a", uint64(epoch.UnixNano()))
	changes := a.say(claims...)
	for name, r := range map[string]report{"changes": changes, "whole": a.whole("a", epoch)} {
		messages := split(r)
		b := newBook("b", 1, Meta{})
		for i := range messages {
			m := messages[(i*7+3)%len(messages)]
			if len(m) > messageSize {
				t.Errorf("%s: a message has %d bytes", name, len(m))
			}
			part, err := decode(m)
			if err != nil {
				t.Fatal(err)
			}
			b.merge(part, true, epoch)
		}
		if got := len(b.all()); got != len(claims) {
			t.Errorf("%s: %d of %d claims arrived in %d messages", name, got, len(claims), len(messages))
		}
		if !b.pages["a"].info.settled || !b.pages["a"].info.meta.equal(ready) {
			t.Errorf("%s: info %+v", name, b.pages["a"].info)
		}
	}
	b := newBook("b", 1, Meta{})
	for _, m := range split(changes) {
		part, _ := decode(m)
		b.merge(part, true, epoch)
	}
	if got, want := b.pages["a"].floor, a.own().floor; got != want {
		t.Errorf("all changes in their order: known up to %d of %d", got, want)
	}
}

// Only members have the key, but not all of them need to be well.
func FuzzDecode(f *testing.F) {
	for _, r := range samples {
		f.Add(encode(r))
		f.Add(encodeExchange([]report{r, r}, true))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		book := newBook("a", 1, Meta{})
		if r, err := decode(b); err == nil {
			again, err := decode(encode(r))
			if err != nil {
				t.Fatalf("%+v cannot be said again: %v", r, err)
			}
			if diff := cmp.Diff(r, again, compare); diff != "" {
				t.Fatal(diff)
			}
			if book.merge(r, false, epoch) == accused {
				book.refute(r)
			}
		}
		if all, _, err := decodeExchange(b); err == nil {
			for _, r := range all {
				if book.merge(r, true, epoch) == accused {
					book.refute(r)
				}
			}
		}
		for name := range book.pages {
			split(book.whole(name, epoch))
		}
		book.all()
	})
}

// A member of an earlier version takes a silence for a hardware address that no host
// has, and passes it on as it was.
func TestSilencesPassThroughEarlierVersions(t *testing.T) {
	for _, s := range []Silence{{Link: "eth0", Why: "mute"}, {Link: "eth1", V6: true, Why: strings.Repeat("x", 2*maxSilence)}} {
		b := s.bytes()
		if len(b) <= longestMAC || len(b) > maxLink {
			t.Errorf("%d bytes", len(b))
		}
		got, ok := silenceOf(b)
		if !ok || got.Link != s.Link || got.V6 != s.V6 || !strings.HasPrefix(s.Why, got.Why) {
			t.Errorf("%+v became %+v, %t", s, got, ok)
		}
	}
	for _, mac := range [][]byte{{2, 0, 0, 0, 0, 1}, make([]byte, 20), make([]byte, longestMAC)} {
		if s, ok := silenceOf(mac); ok {
			t.Errorf("hardware address %v was taken for %+v", mac, s)
		}
	}
}
