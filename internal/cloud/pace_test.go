package cloud

import (
	"testing"
	"time"
)

const (
	first   = 200 * time.Millisecond
	longest = 5 * time.Second
)

// Whatever takes a while is looked at in time, and not too often.
func TestPace(t *testing.T) {
	for _, test := range []struct {
		name  string
		takes func(i int) time.Duration
		// after the first ten: how many looks each, and how late the last one is.
		looks float64
		late  float64
	}{
		{"at once", func(int) time.Duration { return 50 * time.Millisecond }, 1.3, 1.5},
		{"a second", func(int) time.Duration { return time.Second }, 1.3, 0.15},
		{"half a minute", func(int) time.Duration { return 30 * time.Second }, 1.3, 0.15},
		{"now so, now so", func(i int) time.Duration { return time.Second + time.Duration(i%3)*300*time.Millisecond }, 2.5, 0.4},
		{"faster than it was", func(i int) time.Duration {
			if i < 20 {
				return 10 * time.Second
			}
			return time.Second
		}, 2, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, now := NewPace(first, longest), time.Unix(0, 0)
			const n, learning = 60, 10
			looks, late := 0, 0.0
			for i := range n {
				took := test.takes(i)
				began, next := now, p.Begin("a", now)
				for {
					if next <= 0 || next > max(longest, p.high) {
						t.Fatalf("looks after %s", next)
					}
					now = now.Add(next)
					if i >= learning {
						looks++
					}
					if now.Sub(began) >= took {
						break
					}
					next = p.Busy("a", now)
				}
				p.Done("a", now)
				if i >= learning {
					late += float64(now.Sub(began)-took) / float64(took)
				}
			}
			each, by := float64(looks)/(n-learning), late/(n-learning)
			t.Logf("%.2f looks each, late by %.2f of the time", each, by)
			if each > test.looks || by > test.late {
				t.Errorf("%.2f looks each, want %.2f; late by %.2f of the time, want %.2f", each, test.looks, by, test.late)
			}
		})
	}
}

// What was not seen from its beginning teaches nothing, and is looked at less and
// less often.
func TestPaceOfStrangers(t *testing.T) {
	p, now := NewPace(first, longest), time.Unix(0, 0)
	var last time.Duration
	for range 20 {
		next := p.Busy("a", now)
		if next < last || next > longest {
			t.Fatalf("looks after %s, then %s", last, next)
		}
		now, last = now.Add(next), next
	}
	p.Done("a", now)
	if p.high != 0 || len(p.since) > 0 {
		t.Errorf("%+v", p)
	}
}
