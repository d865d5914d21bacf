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
		if got := (Record{Failed: test.failed}).Unexplained(test.moves); len(got) != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
