// Package router knows how Debian's routing daemons are run beside others of their kind: FRR
// and BIRD, with all of their files in one directory.
package router

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// Programs that are not in the PATH.
const frrPrograms = "/usr/lib/frr"

// Packages of Debian with the daemons, and a program of each.
var Packages = []struct{ Name, Program string }{
	{"frr", filepath.Join(frrPrograms, "bgpd")},
	{"bird2", "bird"},
}

// FRR is a router with FRR.
type FRR struct {
	Dir string // see MakeDir
}

// Config is the file that all daemons read.
func (f FRR) Config() string { return filepath.Join(f.Dir, "frr.conf") }

// Daemon is the command of zebra, bgpd or another, in the foreground.
func (f FRR) Daemon(name string) []string {
	argv := []string{filepath.Join(frrPrograms, name), "-f", f.Config(), "-z", filepath.Join(f.Dir, "zserv.api"), "-i", filepath.Join(f.Dir, name+".pid"),
		"--vty_socket", f.Dir, "-u", "frr", "-g", "frr", "--log", "file:" + filepath.Join(f.Dir, name+".log")}
	if name == "bfdd" {
		argv = append(argv, "--bfdctl", filepath.Join(f.Dir, "bfdd.sock"))
	}
	return argv
}

// Vtysh is the command that asks or configures the daemons.
func (f FRR) Vtysh(args ...string) []string {
	return append([]string{"vtysh", "--vty_socket", f.Dir}, args...)
}

// BIRD is a router with BIRD.
type BIRD struct {
	Dir string // see MakeDir
}

// Config is the file that it reads.
func (b BIRD) Config() string { return filepath.Join(b.Dir, "bird.conf") }

func (b BIRD) socket() string { return filepath.Join(b.Dir, "bird.ctl") }

// Daemon is its command, in the foreground.
func (b BIRD) Daemon() []string {
	return []string{"bird", "-f", "-c", b.Config(), "-s", b.socket(), "-P", filepath.Join(b.Dir, "bird.pid")}
}

// Birdc is the command that asks it.
func (b BIRD) Birdc(args ...string) []string {
	return append([]string{"birdc", "-s", b.socket()}, args...)
}

// MakeDir makes a directory that daemons can use which run as another user, frr or bird.
func MakeDir(dir, owner string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of a router: %w", err)
	}
	u, err := user.Lookup(owner)
	if err != nil {
		return fmt.Errorf("make directory of a router: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return fmt.Errorf("make directory of a router: %w", err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return fmt.Errorf("make directory of a router: %w", err)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		return fmt.Errorf("make directory of a router: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of a router: %w", err)
	}
	return nil
}
