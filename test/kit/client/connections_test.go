package client

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// Connections that were under way at one moment are explained by one move, others are
// not, and what was not reset is explained by none.
func TestUnexplained(t *testing.T) {
	reset := func(began, ended time.Duration) Failure {
		return Failure{began, ended, fmt.Errorf("read: %w", syscall.ECONNRESET)}
	}
	at := func(began, ended time.Duration) Failure { return Failure{began, ended, syscall.EPIPE} }
	for name, test := range map[string]struct {
		failed []Failure
		moves  int
		want   int
	}{
		"none":                  {nil, 0, 0},
		"one":                   {[]Failure{reset(1, 2)}, 1, 0},
		"one without a move":    {[]Failure{reset(1, 2)}, 0, 1},
		"three at one moment":   {[]Failure{reset(1, 9), at(5, 6), reset(3, 7)}, 1, 0},
		"one after the other":   {[]Failure{reset(1, 2), reset(3, 4)}, 1, 1},
		"one for each move":     {[]Failure{reset(3, 4), reset(1, 2)}, 2, 0},
		"some are too late":     {[]Failure{reset(1, 5), reset(2, 9), reset(6, 9), reset(7, 8)}, 1, 2},
		"a timeout is no reset": {[]Failure{{1, 2, context.DeadlineExceeded}, reset(1, 2)}, 1, 1},
		"refused is no reset":   {[]Failure{{1, 2, syscall.ECONNREFUSED}}, 3, 1},
	} {
		if got := (Record{Failed: test.failed}).Unexplained(test.moves, Reset); len(got) != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	late := Failure{1, 2, fmt.Errorf("greet: %w", ErrLate)}
	if got := (Record{Failed: []Failure{late, reset(1, 2)}}).Unexplained(1, Late); len(got) != 1 || Late(got[0].Err) {
		t.Errorf("a move that is planned makes connections late, and resets none: %v", got)
	}
}

// An outage has a connection that failed.
func TestOutage(t *testing.T) {
	from := time.Now()
	at := func(s ...int) (out []time.Time) {
		for _, n := range s {
			out = append(out, from.Add(time.Duration(n)*time.Second))
		}
		return out
	}
	failed := func(s ...int) (out []Failure) {
		for _, n := range s {
			out = append(out, Failure{Began: time.Duration(n) * time.Second})
		}
		return out
	}
	for name, test := range map[string]struct {
		made   []time.Time
		failed []Failure
		want   time.Duration
	}{
		"busy":         {at(1, 2, 9), nil, 0},
		"between two":  {at(1, 2, 9), failed(5, 3), 7 * time.Second},
		"at the start": {at(4, 5), failed(1), 4 * time.Second},
		"at the end":   {at(4, 5), failed(7), 5 * time.Second},
		"never":        {nil, failed(7), 10 * time.Second},
		"two":          {at(1, 3, 4, 9), failed(2, 8), 5 * time.Second},
	} {
		r := Record{Made: test.made, Failed: test.failed, from: from, to: from.Add(10 * time.Second)}
		if got := r.Outage(); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
