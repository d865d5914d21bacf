package sandbox

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// NodeInit is the first process of a node. It is started by Cluster in
// namespaces of its own, as "sandbox node-init FILE", and does not return
// unless it fails.
func NodeInit(configFile string) error {
	content, err := os.ReadFile(configFile)
	if err != nil {
		return fmt.Errorf("read configuration of the node: %w", err)
	}
	var n nodeConfig
	if err := json.Unmarshal(content, &n); err != nil {
		return fmt.Errorf("read configuration of the node: %w", err)
	}
	if os.Getenv(insideCgroup) == "" {
		return n.enterCgroup()
	}
	if err := n.boot(); err != nil {
		return err
	}
	return n.serve()
}

// insideCgroup is the environment variable that tells the second stage.
const insideCgroup = "FAIRLEAD_SANDBOX_INSIDE_CGROUP"

// enterCgroup joins the node's cgroup and makes it the root of a cgroup
// namespace. A new namespace applies to the calling thread alone, so the
// program is executed once more, on this thread.
func (n nodeConfig) enterCgroup() error {
	runtime.LockOSThread()
	if err := joinCgroup(n.Cgroup); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make cgroup namespace: %w", err)
	}
	err := unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), insideCgroup+"=1"))
	return fmt.Errorf("execute the second stage: %w", err)
}

// boot makes the file system of the node.
func (n nodeConfig) boot() error {
	if err := unix.Sethostname([]byte(n.Name)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	// From here on no mount is seen outside.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	// Handles on directories that are about to be hidden.
	state, err := unix.Open(n.StateDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", n.StateDir, err)
	}
	defer unix.Close(state)
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	links, err := symlinks(cgroupRoot)
	if err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mountCgroups(hierarchies, links); err != nil {
		return err
	}
	// Not every kernel has it, and not every node needs it.
	_ = mount("bpf", "/sys/fs/bpf", "bpf", 0, "")

	for _, dir := range []string{"/run", "/opt"} {
		if err := mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return err
		}
	}
	if err := mountAt(fmt.Sprintf("/proc/self/fd/%d", state), nodeState); err != nil {
		return err
	}
	own := filepath.Join(nodeState, "nodes", n.Name)
	for _, dir := range []string{"lib", "log", "etc", "etc-work"} {
		if err := os.MkdirAll(filepath.Join(own, dir), 0o755); err != nil {
			return fmt.Errorf("make directory of the node: %w", err)
		}
	}
	overlay := fmt.Sprintf("lowerdir=/etc,upperdir=%s,workdir=%s", filepath.Join(own, "etc"), filepath.Join(own, "etc-work"))
	if err := mount("overlay", "/etc", "overlay", 0, overlay); err != nil {
		return err
	}
	for source, target := range map[string]string{"lib": "/var/lib", "log": "/var/log"} {
		if err := mountAt(filepath.Join(own, source), target); err != nil {
			return err
		}
	}
	if err := n.linkPlugins(); err != nil {
		return err
	}
	if err := fakeKernelValues(); err != nil {
		return err
	}
	// The kubelet and containers share mounts among each other.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return err
	}
	return n.writeConfigs()
}

// mountCgroups mounts what the cgroup namespace shows of each hierarchy.
func mountCgroups(hierarchies []hierarchy, links map[string]string) error {
	if unified(hierarchies) {
		if err := mount("cgroup2", cgroupRoot, "cgroup2", 0, ""); err != nil {
			return err
		}
		// A v2 cgroup with processes has no controllers to give to those
		// below: the node's own processes move into one below.
		if err := os.Mkdir(filepath.Join(cgroupRoot, "init"), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make cgroup: %w", err)
		}
		if err := os.WriteFile(filepath.Join(cgroupRoot, "init", "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
		return enableControllers(cgroupRoot)
	}
	if err := mount("tmpfs", cgroupRoot, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, h := range hierarchies {
		kind := "cgroup"
		if h.v2 {
			kind = "cgroup2"
		}
		if err := os.MkdirAll(h.dir, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", h.dir, err)
		}
		if err := mount(kind, h.dir, kind, 0, h.options); err != nil {
			return err
		}
	}
	for name, target := range links { // cpu -> cpu,cpuacct
		if err := os.Symlink(target, filepath.Join(cgroupRoot, name)); err != nil {
			return fmt.Errorf("link hierarchy: %w", err)
		}
	}
	return nil
}

// linkPlugins lets /opt/cni/bin have the machine's CNI plugins and others that
// are installed later.
func (n nodeConfig) linkPlugins() error {
	const target = "/opt/cni/bin"
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	plugins, err := os.ReadDir(n.CNIDir)
	if err != nil {
		return fmt.Errorf("list CNI plugins: %w", err)
	}
	for _, p := range plugins {
		if err := os.Symlink(filepath.Join(n.CNIDir, p.Name()), filepath.Join(target, p.Name())); err != nil {
			return fmt.Errorf("link CNI plugin: %w", err)
		}
	}
	return nil
}

// fakeKernelValues hides values of the whole machine: those that the kubelet
// would change if they were not as it wants them, and the boot ID, by which
// the cluster sees that a node was started again.
func fakeKernelValues() error {
	values := map[string]string{
		"vm/overcommit_memory":      "1",
		"vm/panic_on_oom":           "0",
		"kernel/panic":              "10",
		"kernel/panic_on_oops":      "1",
		"kernel/keys/root_maxkeys":  "1000000",
		"kernel/keys/root_maxbytes": "25000000",
		"kernel/random/boot_id":     newUUID(),
	}
	for name, value := range values {
		real, fake := filepath.Join("/proc/sys", name), filepath.Join("/run/fake", name)
		if _, err := os.Stat(real); err != nil {
			continue // not in this kernel
		}
		if err := os.MkdirAll(filepath.Dir(fake), 0o755); err != nil {
			return fmt.Errorf("make %s: %w", filepath.Dir(fake), err)
		}
		if err := os.WriteFile(fake, []byte(value+"\n"), 0o444); err != nil {
			return fmt.Errorf("write %s: %w", fake, err)
		}
		if err := mount(fake, real, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

func newUUID() string {
	b := make([]byte, 16)
	rand.Read(b)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func symlinks(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	links := make(map[string]string)
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read link: %w", err)
		}
		links[e.Name()] = target
	}
	return links, nil
}

// mountAt shows the directory source at target as well, which is made.
func mountAt(source, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	return mount(source, target, "", unix.MS_BIND, "")
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s at %s: %w", strings.TrimSpace(kind+" "+source), target, err)
	}
	return nil
}
