package bfd

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/process"
)

// router is a real one.
type router interface {
	// peers returns the state of each session, by the address of its peer.
	peers(t *testing.T) map[string]string
	// isUp is what peers says of a session that is up.
	isUp() string
}

// frr is Debian's FRR: zebra and bfdd.
type frr struct {
	ns  *netns.NS
	dir string
}

func startFRR(t *testing.T, ns *netns.NS, config string) *frr {
	t.Helper()
	netns.Need(t, "vtysh")
	r := &frr{ns: ns, dir: daemonDir(t, "frr")}
	r.daemon(t, "zebra", "")
	netns.Eventually(t, time.Minute, "zebra listens", func() bool { return exists(filepath.Join(r.dir, "zserv.api")) })
	r.daemon(t, "bfdd", config, "--bfdctl", filepath.Join(r.dir, "bfdd.sock"))
	netns.Eventually(t, time.Minute, "bfdd listens", func() bool { return exists(filepath.Join(r.dir, "bfdd.vty")) })
	return r
}

func (r *frr) daemon(t *testing.T, name, config string, more ...string) {
	t.Helper()
	file := filepath.Join(r.dir, name+".conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-f", file, "-z", filepath.Join(r.dir, "zserv.api"), "-i", filepath.Join(r.dir, name+".pid"),
		"--vty_socket", r.dir, "-u", "frr", "-g", "frr"}, more...)
	r.ns.Do(func() { process.Start(t, exec.Command("/usr/lib/frr/"+name, args...)) })
}

// vtysh runs commands.
func (r *frr) vtysh(t *testing.T, commands ...string) string {
	t.Helper()
	args := []string{"--vty_socket", r.dir}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	return r.ns.Run("vtysh", args...)
}

// frrPeer is what FRR says of a session.
type frrPeer struct {
	Peer, Status, Diagnostic string
	RemoteDiagnostic         string `json:"remote-diagnostic"`
	Uptime                   int
	RemoteTransmit           int `json:"remote-transmit-interval"`
	RemoteReceive            int `json:"remote-receive-interval"`
	RemoteMultiplier         int `json:"remote-detect-multiplier"`
	SessionUp                int `json:"session-up"`
	SessionDown              int `json:"session-down"`
}

func (r *frr) show(t *testing.T, what string) []frrPeer {
	t.Helper()
	out := r.vtysh(t, what)
	var all []frrPeer
	if at := strings.Index(out, "["); at < 0 || json.Unmarshal([]byte(out[at:]), &all) != nil {
		t.Fatalf("%s: %s", what, out)
	}
	return all
}

func (r *frr) peers(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range r.show(t, "show bfd peers json") {
		out[p.Peer] = p.Status
	}
	return out
}

func (r *frr) isUp() string { return "up" }

// peer returns what FRR says of one session.
func (r *frr) peer(t *testing.T, address, what string) frrPeer {
	t.Helper()
	for _, p := range r.show(t, what) {
		if p.Peer == address {
			return p
		}
	}
	t.Fatalf("FRR has no session with %s", address)
	return frrPeer{}
}

// bird is Debian's BIRD.
type bird struct {
	ns      *netns.NS
	control string
}

func startBIRD(t *testing.T, ns *netns.NS, config string) *bird {
	t.Helper()
	netns.Need(t, "bird")
	dir := t.TempDir()
	r := &bird{ns: ns, control: filepath.Join(dir, "ctl")}
	file := filepath.Join(dir, "bird.conf")
	if err := os.WriteFile(file, []byte("router id 192.0.2.2;\nprotocol device { }\n"+config), 0o600); err != nil {
		t.Fatal(err)
	}
	ns.Do(func() {
		process.Start(t, exec.Command("bird", "-f", "-c", file, "-s", r.control, "-P", filepath.Join(dir, "pid")))
	})
	netns.Eventually(t, time.Minute, "BIRD listens", func() bool { return exists(r.control) })
	return r
}

func (r *bird) birdc(command ...string) string {
	return r.ns.Run("birdc", append([]string{"-s", r.control}, command...)...)
}

func (r *bird) peers(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(r.birdc("show", "bfd", "sessions")) {
		// IP address, interface, state, since, interval, timeout
		if f := strings.Fields(line); len(f) >= 6 && strings.ContainsAny(f[0], ".:") {
			out[f[0]] = f[2]
		}
	}
	return out
}

func (r *bird) isUp() string { return "Up" }

// daemonDir returns a directory that belongs to a user.
func daemonDir(t *testing.T, owner string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bfd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	u, err := user.Lookup(owner)
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
