// Package process runs programs beside tests and keeps what they say.
package process

import (
	"bytes"
	"sync"
	"testing"
)

// Log is what somebody says. It can be read while it is written.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// LogOf returns the log of something in a test, which is shown if the test fails. (The
// test's own output must not be written to by goroutines that end after it.)
func LogOf(t testing.TB, what string) *Log {
	l := &Log{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", what, l)
		}
	})
	return l
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string { return l.From(0) }

// Len is how many bytes have been written.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Len()
}

// From returns what was written after the first n bytes.
func (l *Log) From(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text.Bytes()[n:])
}
