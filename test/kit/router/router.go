// Package router runs the routing daemons of Debian, FRR and BIRD, in the network namespaces of
// tests.
package router

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.io/sandbox/router"
	"fairlead.io/test/kit/netns"
)

// patience is how long a daemon may take on a busy machine.
const patience = time.Minute

// FRR is one router with Debian's FRR.
type FRR struct {
	t    testing.TB
	ns   *netns.NS
	at   router.FRR
	stop map[string]func()
}

// StartFRR starts zebra and the named daemons with one configuration. They end with the test.
func StartFRR(t testing.TB, ns *netns.NS, config string, daemons ...string) *FRR {
	t.Helper()
	netns.Need(t, "vtysh")
	f := &FRR{t: t, ns: ns, at: router.FRR{Dir: directory(t, "frr")}, stop: map[string]func(){}}
	if err := os.WriteFile(f.at.Config(), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, daemon := range append([]string{"zebra"}, daemons...) {
		f.Start(daemon)
	}
	return f
}

// Start starts a daemon and waits until it answers.
func (f *FRR) Start(daemon string) {
	f.t.Helper()
	f.stop[daemon] = run(f.t, f.ns, filepath.Join(f.at.Dir, daemon+".out"), f.at.Daemon(daemon))
	netns.Eventually(f.t, patience, daemon+" answers", func() bool {
		_, err := f.try("-d", daemon, "-c", "show version")
		return err == nil
	})
}

// Kill ends a daemon as a crash does.
func (f *FRR) Kill(daemon string) { f.stop[daemon]() }

// Show runs a command of vtysh. What FRR does not have, or not yet, it says in a line that begins
// with %.
func (f *FRR) Show(command string) string {
	f.t.Helper()
	out, err := f.try("-c", command)
	if err != nil && !strings.HasPrefix(strings.TrimSpace(out), "%") {
		f.t.Fatalf("vtysh %q: %v\n%s", command, err, out)
	}
	return out
}

// Configure changes the running configuration, line by line.
func (f *FRR) Configure(lines ...string) {
	f.t.Helper()
	args := []string{"-c", "configure terminal"}
	for _, line := range lines {
		args = append(args, "-c", line)
	}
	if out, err := f.try(args...); err != nil || strings.Contains(out, "%") {
		f.t.Fatalf("vtysh %q: %v\n%s", lines, err, out)
	}
}

func (f *FRR) try(args ...string) (string, error) {
	argv := f.at.Vtysh(args...)
	return f.ns.Try(argv[0], argv[1:]...)
}

// BIRD is one router with Debian's BIRD.
type BIRD struct {
	t    testing.TB
	ns   *netns.NS
	at   router.BIRD
	Kill func() // ends it as a crash does
}

// StartBIRD starts BIRD with a configuration. It ends with the test.
func StartBIRD(t testing.TB, ns *netns.NS, config string) *BIRD {
	t.Helper()
	netns.Need(t, "bird")
	b := &BIRD{t: t, ns: ns, at: router.BIRD{Dir: directory(t, "bird")}}
	if err := os.WriteFile(b.at.Config(), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	b.Kill = run(t, ns, filepath.Join(b.at.Dir, "bird.out"), b.at.Daemon())
	netns.Eventually(t, patience, "BIRD answers", func() bool {
		argv := b.at.Birdc("show", "status")
		out, err := ns.Try(argv[0], argv[1:]...)
		return err == nil && strings.Contains(out, "Daemon is up and running")
	})
	return b
}

// Show runs a command of birdc.
func (b *BIRD) Show(command string) string {
	b.t.Helper()
	argv := b.at.Birdc(strings.Fields(command)...)
	return b.ns.Run(argv[0], argv[1:]...)
}

// directory that daemons can use which run as another user.
func directory(t testing.TB, owner string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fairlead-"+owner+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
			outs, _ := filepath.Glob(filepath.Join(dir, "*.out"))
			for _, file := range append(logs, outs...) {
				if b, err := os.ReadFile(file); err == nil && len(bytes.TrimSpace(b)) > 0 {
					t.Logf("%s:\n%s", filepath.Base(file), b)
				}
			}
		}
		_ = os.RemoveAll(dir)
	})
	if err := router.MakeDir(dir, owner); err != nil {
		t.Fatal(err)
	}
	return dir
}

// run starts a daemon in the foreground. It is killed by the returned function, at the latest
// at the end of the test.
func run(t testing.TB, ns *netns.NS, output string, argv []string) (kill func()) {
	t.Helper()
	out, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	ns.Do(func() { err = cmd.Start() })
	_ = out.Close()
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	kill = func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	t.Cleanup(kill)
	return kill
}
