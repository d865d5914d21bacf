package ovsdb

import (
	"encoding/json"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A server that stops answering is given up after two intervals, although its connection
// stays open.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() { // it reads, and never answers
			buffer := make([]byte, 4096)
			for {
				if _, err := theirs.Read(buffer); err != nil {
					return
				}
			}
		}()
		s := &session{conn: newConn(ours, func(string, json.RawMessage) error { return nil })}
		s.reader.Go(s.conn.read)
		began := time.Now()
		if err := s.keep(t.Context()); err == nil {
			t.Error("no reason")
		}
		if took := time.Since(began); took > 3*(probeInterval+probeTimeout) {
			t.Errorf("given up after %v", took)
		}
		s.wait()
		_ = theirs.Close()
	})
}
