package member_test

import (
	"bytes"
	"testing"
	"time"

	"fairlead.io/internal/member"
)

// Letters go to one member, as they are.
func TestLetters(t *testing.T) {
	a, b, c := start(t, "a", "127.0.0.1"), start(t, "b", "127.0.0.2"), start(t, "c", "127.0.0.3")
	join(t, b, a)
	join(t, c, a)
	for _, g := range []*member.Group{a, b, c} {
		eventually(t, g, "all members", func() bool { return len(g.Members()) == 3 })
	}
	long := bytes.Repeat([]byte("0123456789abcdef"), member.MaxLetter/16)
	for i, body := range [][]byte{{}, []byte("hello"), long} {
		if err := a.Post("b", body); err != nil {
			t.Fatal(err)
		}
		select {
		case <-b.Mail():
		case <-time.After(time.Minute):
			t.Fatal("no letter")
		}
		got := b.Letters()
		if len(got) != 1 || got[0].From != "a" || !bytes.Equal(got[0].Body, body) {
			t.Errorf("letter %d: %d letters", i, len(got))
		}
	}
	if len(c.Letters()) > 0 {
		t.Error("a letter to b came to c")
	}
	if err := a.Post("b", append(long, 0)); err == nil {
		t.Error("a letter that is too long is sent")
	}
	if err := a.Post("nobody", nil); err == nil {
		t.Error("a letter to nobody is sent")
	}
}
