// Package leak fails tests that leave goroutines behind.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may need to end on a busy machine: longer than
// goleak itself waits, which is half a second.
const patience = 30 * time.Second

// Main runs the tests of a package and exits. It fails if goroutines are left.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// None fails the test if goroutines are left.
func None(t testing.TB, options ...goleak.Option) {
	t.Helper()
	if err := find(options...); err != nil {
		t.Error(err)
	}
}

func find(options ...goleak.Option) error {
	for end := time.Now().Add(patience); ; {
		err := goleak.Find(options...)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
