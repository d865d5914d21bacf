package sandbox

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressInPlainLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := newProgress(&out)
		if err := p.step("quick", func(io.Writer) error { return nil }); err != nil {
			t.Error(err)
		}
		err := p.step("slow", func(note io.Writer) error {
			fmt.Fprint(note, "first\nsec")
			fmt.Fprint(note, "ond\n")
			<-time.After(11 * time.Second)
			return errors.New("no")
		})
		if err == nil {
			t.Error("the error of the step is lost")
		}
		want := "    0.0s  quick\n    5.0s  slow … second\n   10.0s  slow … second\n   11.0s  slow: failed\n"
		if out.String() != want {
			t.Errorf("got:\n%swant:\n%s", out.String(), want)
		}
	})
}
