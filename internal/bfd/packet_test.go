package bfd

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A packet by hand, as RFC 5880 §4.1 draws it: version 1, Up, control plane independent.
const drawn = "20c803180000002a6b8b4567" + "0000c350" + "0000c350" + "0000c350"

func decodeHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDecode(t *testing.T) {
	got, err := Decode(decodeHex(t, drawn))
	if err != nil {
		t.Fatal(err)
	}
	const interval = 50 * time.Millisecond
	want := Packet{State: Up, Independent: true, Multiplier: 3, Mine: 42, Yours: 0x6b8b4567, DesiredTx: interval, RequiredRx: interval, RequiredEchoRx: interval}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if b := got.Append(nil); !bytes.Equal(b, decodeHex(t, drawn)) {
		t.Errorf("written as %x", b)
	}
}

// What RFC 5880 §6.8.6 says to discard is discarded.
func TestDecodeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]byte) []byte
		want   error
	}{
		"nothing":                {func([]byte) []byte { return nil }, ErrShort},
		"short":                  {func(b []byte) []byte { return b[:23] }, ErrShort},
		"version 0":              {func(b []byte) []byte { b[0] = 0; return b }, ErrVersion},
		"version 2":              {func(b []byte) []byte { b[0] = 0x40; return b }, ErrVersion},
		"length 23":              {func(b []byte) []byte { b[3] = 23; return b }, ErrLength},
		"longer than it is":      {func(b []byte) []byte { b[3] = 25; return b }, ErrLength},
		"multiplier 0":           {func(b []byte) []byte { b[2] = 0; return b }, ErrMultiplier},
		"multipoint":             {func(b []byte) []byte { b[1] |= 1; return b }, ErrMultipoint},
		"my discriminator 0":     {func(b []byte) []byte { clear(b[4:8]); return b }, ErrDiscriminator},
		"Up for nobody":          {func(b []byte) []byte { clear(b[8:12]); return b }, ErrUnaddressed},
		"authenticated":          {func(b []byte) []byte { b[1] |= 4; return b }, ErrAuthentication},
		"Down for nobody yet":    {func(b []byte) []byte { b[1] = 0x40; clear(b[8:12]); return b }, nil},
		"trailing bytes":         {func(b []byte) []byte { return append(b, 1, 2, 3) }, nil},
		"unknown diagnostic":     {func(b []byte) []byte { b[0] = 0x3f; return b }, nil},
		"discriminator of other": {func(b []byte) []byte { b[8]++; return b }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Decode(c.change(decodeHex(t, drawn))); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// Whatever arrives neither panics nor is read in two ways, and a session that takes it keeps
// the promises that its timers depend on.
func FuzzPacket(f *testing.F) {
	f.Add(decodeHex(f, drawn), decodeHex(f, drawn))
	f.Add(decodeHex(f, "20400318000000010000000000"+"0f4240"+"000f424000000000"), []byte{})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		now := time.Unix(1000, 0)
		s := NewSession(now, Profile{}, 0x6b8b4567, func() float64 { return 0.5 })
		s.Wake(now)
		for _, b := range [][]byte{first, second} {
			p, err := Decode(b)
			if err != nil {
				continue
			}
			if again, err := Decode(p.Append(nil)); err != nil || again != p {
				t.Fatalf("%+v is written and read as %+v, %v", p, again, err)
			}
			now = now.Add(time.Millisecond)
			out, send, err := s.Receive(now, &p)
			if err == nil && p.Poll && (!send || !out.Final || out.Poll) {
				t.Errorf("a poll is answered by %+v, %v", out, send)
			}
			if s.State > Up || err == nil && !s.detectAt.After(now) {
				t.Errorf("state %d, lost at %v", s.State, s.detectAt)
			}
			if next := s.Next(); !next.IsZero() && next.Before(now) {
				t.Errorf("next wake-up is in the past: %v", next)
			}
		}
	})
}
