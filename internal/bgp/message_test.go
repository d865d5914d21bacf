package bgp

import (
	"bytes"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"fairlead.io/internal/lb"
)

func TestReaderCutsMessages(t *testing.T) {
	open, err := hello(node(), lb.IPv4, false, false)
	if err != nil {
		t.Fatal(err)
	}
	stream := bytes.Join([][]byte{open, keepalive, notification(farewell(ceaseShutdown, "", communicate("bye"))), keepalive}, nil)
	for name, from := range map[string]io.Reader{
		"at once": bytes.NewReader(stream), "byte by byte": iotest.OneByteReader(bytes.NewReader(stream)), "with the end": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		r := &reader{from: from}
		var kinds []byte
		var err error
		for err == nil {
			var kind byte
			if kind, _, err = r.next(); err == nil {
				kinds = append(kinds, kind)
			}
		}
		if !errors.Is(err, io.EOF) || !bytes.Equal(kinds, []byte{typeOpen, typeKeepalive, typeNotification, typeKeepalive}) {
			t.Errorf("%s: %v, then %v", name, kinds, err)
		}
	}
}

// TestReaderGoesOn: a reader that was interrupted anywhere can be continued by another one.
func TestReaderGoesOn(t *testing.T) {
	open, err := hello(node(), lb.IPv4, false, false)
	if err != nil {
		t.Fatal(err)
	}
	stream := append(bytes.Clone(open), keepalive...)
	for cut := range stream {
		before := &reader{from: bytes.NewReader(stream[:cut])}
		var kinds []byte
		for {
			kind, _, err := before.next()
			if err != nil {
				break
			}
			kinds = append(kinds, kind)
		}
		after := &reader{from: bytes.NewReader(stream[cut:])}
		after.end = copy(after.buf[:], before.unread())
		for {
			kind, _, err := after.next()
			if err != nil {
				break
			}
			kinds = append(kinds, kind)
		}
		if !bytes.Equal(kinds, []byte{typeOpen, typeKeepalive}) {
			t.Errorf("cut at %d: %v", cut, kinds)
		}
	}
}

func TestReadOpenWithLongParameters(t *testing.T) {
	// RFC 9072: lengths of two bytes.
	body := []byte{4, 0xfd, 0xe9, 0, 90, 192, 0, 2, 1, 255, 255, 0, 9, 2, 0, 6, 65, 4, 0xfa, 0x56, 0xea, 0x0a}
	o, f := readOpen(body)
	if f != nil || o.as != 4200000010 || !o.fourOctets {
		t.Errorf("%+v, %v", o, f)
	}
}

// decode reads a stream as a session does.
func decode(b []byte) {
	r := &reader{from: bytes.NewReader(b)}
	for {
		kind, body, err := r.next()
		if err != nil {
			return
		}
		switch kind {
		case typeOpen:
			if o, f := readOpen(body); f == nil {
				_, _ = agree(node(), lb.IPv4, false, o)
			}
		case typeNotification:
			_ = readNotification(body).Error()
		case typeRefresh:
			_, _ = readRefresh(body)
		}
	}
}

// FuzzStream: nothing that a router sends ends the process, or takes much memory.
func FuzzStream(f *testing.F) {
	open, err := hello(node(), lb.IPv4, false, true)
	if err != nil {
		f.Fatal(err)
	}
	refresh, err := packet.NewBGPRouteRefreshMessage(1, 0, 1).Serialize()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(bytes.Clone(open), keepalive...))
	f.Add(notification(farewell(ceaseShutdown, "", communicate("maintenance"))))
	f.Add(notification(&Failure{Code: 6, Subcode: 1, data: []byte{0, 1, 1, 0, 0, 0, 10}}))
	f.Add(refresh)
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	// What takes most: the largest OPEN, of as many capabilities as fit.
	full := bytes.Repeat([]byte{2, 0}, (maxMessage-headerSize-16)/2)
	size := func(n int) []byte { return []byte{byte(n >> 8), byte(n)} }
	f.Add(slices.Concat(marker, size(headerSize+16+len(full)), []byte{typeOpen, 4, 0xfd, 0xe9, 0, 90, 1, 2, 3, 4, 255, 255}, size(len(full)+3), []byte{2}, size(len(full)), full))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := uint64(math.MaxUint64)
		for range 3 { // others allocate, too
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			decode(b)
			runtime.ReadMemStats(&after)
			got = min(got, after.TotalAlloc-before.TotalAlloc)
		}
		// The codec takes up to 16 bytes for each, so 64 KiB for the largest message.
		if limit := 32<<10 + 17*uint64(len(b)); got > limit {
			t.Errorf("%d bytes of input take %d bytes of memory, more than %d", len(b), got, limit)
		}
	})
}

func FuzzOpen(f *testing.F) {
	open, err := hello(node(), lb.IPv4, false, true)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(open[headerSize:])
	f.Add([]byte{4, 0xfd, 0xe9, 0, 90, 192, 0, 2, 1, 255, 255, 0, 9, 2, 0, 6, 65, 4, 0xfa, 0x56, 0xea, 0x0a})
	f.Fuzz(func(t *testing.T, body []byte) {
		o, failure := readOpen(body)
		if (o == nil) == (failure == nil) {
			t.Fatalf("% x: %v, %v", body, o, failure)
		}
		if failure != nil {
			if failure.Kind != Garbage || len(notification(failure)) < 21 {
				t.Errorf("% x: %+v", body, failure)
			}
			return
		}
		if a, failure := agree(node(), lb.IPv4, false, o); failure == nil && (a.Hold != 0 && a.Hold < 3e9 || a.Families == nothing) {
			t.Errorf("% x: %+v", body, a)
		}
	})
}
