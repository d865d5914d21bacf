package lb

import (
	"testing"
	"time"
)

func TestByAge(t *testing.T) {
	at := func(seconds int64) *Request { return &Request{Created: time.Unix(seconds, 0)} }
	first, second, third := at(1), at(2), at(3)
	m := ByAge[string, *Request]{}
	for _, r := range []*Request{second, third, first} {
		m.Add("x", r)
	}
	if got := m["x"]; len(got) != 3 || got[0] != first || got[1] != second || got[2] != third {
		t.Errorf("%v", got)
	}
	for _, r := range []*Request{second, first, third} {
		m.Remove("x", r)
	}
	if len(m) != 0 {
		t.Errorf("left: %v", m)
	}
}
