package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/site"
	"fairlead.io/test/kit/tree"
)

// traces lists everything on this machine that belongs to the cluster of a
// name: processes, network namespaces, mounts, cgroups and files.
func traces(t *testing.T, name string) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"/run/netns/" + name + "-*", "/sys/fs/cgroup/" + name + "-sandbox", "/sys/fs/cgroup/*/" + name + "-sandbox", "/var/lib/" + name + "-sandbox"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, paths...)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, "/"+name+"-") {
			found = append(found, "mount "+line)
		}
	}
	for _, p := range processes(t) {
		if p.belongsTo(name) {
			found = append(found, fmt.Sprintf("process %d %s", p.pid, p.args))
		}
	}
	return found
}

type process struct {
	pid          int
	args         string
	cgroups      string
	start, state string
}

func (p process) belongsTo(name string) bool {
	return p.state != "Z" && (strings.Contains(p.cgroups, "/"+name+"-sandbox/") || strings.Contains(p.args, "/"+name+"-sandbox/"))
}

func processes(t *testing.T) []process {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var all []process
	for _, dir := range dirs {
		// A process may end while we look at it.
		args, argsErr := os.ReadFile(dir + "/cmdline")
		cgroups, cgroupsErr := os.ReadFile(dir + "/cgroup")
		stat, statErr := os.ReadFile(dir + "/stat")
		if errors.Join(argsErr, cgroupsErr, statErr) != nil {
			continue
		}
		// proc_pid_stat(5): state is the third field, start time the 22nd; the
		// second is in parentheses and may have spaces.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, process{pid, string(bytes.ReplaceAll(args, []byte{0}, []byte{' '})), string(cgroups), fields[19], fields[0]})
	}
	return all
}

// hostValues are those of the machine that nodes would change if they could.
func hostValues(t *testing.T) map[string]string {
	t.Helper()
	values := make(map[string]string)
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/hostname", "net/netfilter/nf_conntrack_max"} {
		content, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		values[name] = string(content)
	}
	for _, dir := range []string{"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/etc/cni/net.d", "/opt/cni", "/run/containerd", "/run/openvswitch", "/run/ovn", "/run/sandbox"} {
		entries, err := os.ReadDir(dir)
		values[dir] = fmt.Sprint(entries, err != nil)
	}
	return values
}

// A second cluster, with the same addresses as the first and a network of OVN, is killed at
// different moments of its start, started anew, and removed; nothing of it is
// left, and the first does not notice.
func TestSecondClusterComesAndGoes(t *testing.T) {
	command := tree.Binary(t, "sandbox")
	before := hostValues(t)
	second := &sandbox.Cluster{Name: "fairlead-lab-2", Nodes: 1, Network: sandbox.OVN, Command: command}
	down := func() {
		t.Helper()
		if err := second.Down(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(down)
	down() // of a test that was killed
	has := func(pattern string) func(context.Context) error {
		return func(context.Context) error {
			for _, trace := range traces(t, second.Name) {
				if strings.Contains(trace, pattern) {
					return nil
				}
			}
			return errors.New("not come so far: " + pattern)
		}
	}
	for _, moment := range []string{"/run/netns/fairlead-lab-2-switch", "control-plane", "ovn-controller", "node-init", "containerd", "kubelet"} {
		t.Run("killed at "+moment, func(t *testing.T) {
			killUp(t, command, second.Name, has(moment))
			if moment == "kubelet" {
				return // the next start has to cope
			}
			down()
			if left := traces(t, second.Name); len(left) > 0 {
				t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
			}
		})
	}
	if err := second.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*sandbox.Cluster{cluster, second} {
		eventually(t, func(ctx context.Context) error { return ready(ctx, c) })
	}
	for _, vm := range []string{"vm1", "vm2"} {
		if _, err := second.Exec(t.Context(), vm, "ping", "-c", "1", "-W", "5", "168.119.17.49"); err != nil {
			t.Error(err)
		}
	}
	members := make(map[string]bool)
	for _, p := range processes(t) {
		if p.belongsTo(second.Name) {
			members[fmt.Sprint(p.pid, " ", p.start)] = true
		}
	}
	if len(members) < 5 {
		t.Errorf("found %d processes of a cluster that is up", len(members))
	}
	down()
	for _, p := range processes(t) {
		if p.state != "Z" && members[fmt.Sprint(p.pid, " ", p.start)] {
			t.Errorf("process %d is left: %s", p.pid, p.args)
		}
	}
	if left := traces(t, second.Name); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
	if diff := cmp.Diff(before, hostValues(t)); diff != "" {
		t.Errorf("the machine has changed (-before +after):\n%s", diff)
	}
	if err := ready(t.Context(), cluster); err != nil {
		t.Errorf("the first cluster has suffered: %v", err)
	}
}

// killUp starts "sandbox up" and kills it at a moment.
func killUp(t *testing.T, command, name string, moment func(context.Context) error) {
	t.Helper()
	up := exec.CommandContext(t.Context(), command, "up", "--bare", "--name="+name, "--nodes=1", "--network="+sandbox.OVN)
	up.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var output bytes.Buffer
	up.Stdout, up.Stderr = &output, &output
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	err := site.Await(t.Context(), site.Long, func() error { return moment(t.Context()) })
	if killErr := syscall.Kill(-up.Process.Pid, syscall.SIGKILL); killErr != nil {
		t.Errorf("it had ended before: %v", killErr)
	}
	if waitErr := up.Wait(); waitErr == nil {
		t.Error("it ended well before it was killed")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, output.String())
	}
}

// The first "ip netns add" on a machine mounts its directory anew. Here that
// comes after the start of a cluster, in a mount namespace whose /run is new.
func TestDownAfterOthersMadeNamespaces(t *testing.T) {
	const name = "fairlead-lab-3"
	sandbox := tree.Binary(t, "sandbox") + " --name=" + name
	script := "set -ex; mount -t tmpfs tmpfs /run; " + sandbox + " up --bare --nodes=1; ip netns add other; " + sandbox + " down; ls /run/netns"
	output, err := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	if !strings.HasSuffix(string(output), "\nother\n") {
		t.Errorf("want no namespace but the other one:\n%s", output)
	}
	if left := traces(t, name); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}
