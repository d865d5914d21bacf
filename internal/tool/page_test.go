package tool

import (
	"strings"
	"testing"
)

// What tenants write does not control the terminal of who reads it.
func TestTextIsInert(t *testing.T) {
	var out strings.Builder
	p := &page{out: &out}
	p.line(red, "! ", "event: \x1b[2J\x1b]0;title\a a\rb\u009bm")
	p.table([]string{"NAME"}, [][]string{{"we\x1b[31mb"}})
	if got, want := out.String(), "! event: \ufffd[2J\ufffd]0;title\ufffd a\ufffdb\ufffdm\nNAME\nwe\ufffd[31mb\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
