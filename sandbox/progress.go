package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// progress shows steps and how long they take: on a terminal the step under
// way is a line that changes, elsewhere a line is added every few seconds.
type progress struct {
	out      io.Writer
	terminal bool
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if f, ok := out.(*os.File); ok {
		_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		p.terminal = err == nil
	}
	return p
}

// step runs f and shows that it does. What f writes to note, line by line,
// says what it is doing.
func (p *progress) step(name string, f func(note io.Writer) error) error {
	start := time.Now()
	note := &lastLine{}
	every := 5 * time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	done, shown := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(shown)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.show(start, name+" … "+note.get(), p.terminal)
			}
		}
	}()
	err := f(note)
	close(done)
	<-shown
	if err != nil {
		p.show(start, name+": failed", false)
		return err
	}
	p.show(start, name, false)
	return nil
}

// show writes a line; a changing one is overwritten by the next.
func (p *progress) show(start time.Time, text string, changing bool) {
	before, after := "", "\n"
	if p.terminal {
		before = "\r\x1b[K"
	}
	if changing {
		after = ""
	}
	fmt.Fprintf(p.out, "%s%7.1fs  %s%s", before, time.Since(start).Seconds(), text, after)
}

// lastLine keeps the last line that was written to it.
type lastLine struct {
	mu   sync.Mutex
	rest []byte
	line string
}

func (l *lastLine) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		line, rest, complete := bytes.Cut(l.rest, []byte("\n"))
		if !complete {
			return len(b), nil
		}
		l.rest = rest
		if text := bytes.TrimSpace(line); len(text) > 0 {
			l.line = string(text)
		}
	}
}

func (l *lastLine) get() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line
}
