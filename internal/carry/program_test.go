package carry_test

import (
	"os/exec"
	"syscall"
	"testing"

	"fairlead.io/test/kit/tree"
)

// The program needs two capabilities, and nothing else: no API server, no file.
func TestCapabilities(t *testing.T) {
	l := newLab(t, "203.0.113.7")
	const caps = "-all,+net_admin,+net_raw"
	cmd := exec.Command("setpriv", "--no-new-privs", "--inh-caps="+caps, "--bounding-set="+caps,
		tree.Binary(t, "fairlead"), "carry", "--address", l.addr.String())
	cmd.Env, cmd.Stderr = []string{}, l.log
	var err error
	l.node.Do(func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	l.eventually("carried", func() bool { return l.shown("eth0") != "" && l.log.has("carrying the address", `"interface":"eth0"`) })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, l.log.b.String())
	}
	if l.shown("eth0") != "" {
		t.Error("it is still there after the end")
	}
}
