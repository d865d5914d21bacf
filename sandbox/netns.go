package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// netnsDir is where iproute2 keeps network namespaces that have a name.
const netnsDir = "/run/netns"

// onThread runs f on a thread that ends afterwards, so that f may change the
// thread's namespaces. It is never the process's main thread: its namespaces
// are those that others see as the process's.
func onThread(f func() error) error {
	result := make(chan error)
	var run func()
	run = func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			result <- f()
			return
		}
		done := make(chan struct{})
		go func() { run(); close(done) }()
		<-done
		runtime.UnlockOSThread()
	}
	go run()
	return <-result
}

// inNetns runs f, and the processes f starts, in a named network namespace.
func inNetns(name string, f func() error) error {
	return onThread(func() error {
		ns, err := netns.GetFromName(name)
		if err != nil {
			return fmt.Errorf("open network namespace %s: %w", name, err)
		}
		defer ns.Close()
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", name, err)
		}
		return f()
	})
}

// makeNetns makes a network namespace with a name, as "ip netns add" does.
func makeNetns(name string) error {
	if err := shareNetnsDir(); err != nil {
		return err
	}
	path := filepath.Join(netnsDir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return fmt.Errorf("make network namespace %s: %w", name, err)
	}
	f.Close()
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace %s: %w", name, err)
		}
		return mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
	})
}

// shareNetnsDir makes the directory a mount point of its own, as the first "ip
// netns add" on a machine does. If that came later than our mounts in it, it
// would double them, and half of them could not be removed any more.
func shareNetnsDir() error {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", netnsDir, err)
	}
	dir, err := os.Open(netnsDir)
	if err != nil {
		return fmt.Errorf("open %s: %w", netnsDir, err)
	}
	defer dir.Close()
	// The lock that iproute2 takes for the same.
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", netnsDir, err)
	}
	err = mount("", netnsDir, "", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) { // EINVAL: no mount point
		return err
	}
	if err := mount(netnsDir, netnsDir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return mount("", netnsDir, "", unix.MS_SHARED|unix.MS_REC, "")
}

func removeNetns(name string) error {
	path := filepath.Join(netnsDir, name)
	// EINVAL: not mounted, if making it was interrupted.
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount network namespace %s: %w", name, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
	}
	return nil
}

// hasNetns reports whether the name stands for a namespace: making it may have
// been interrupted.
func hasNetns(name string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(filepath.Join(netnsDir, name), &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// ownNetns lists the names of the cluster's network namespaces, those of
// interrupted starts too.
func (c *Cluster) ownNetns() ([]string, error) {
	entries, err := os.ReadDir(netnsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	own := regexp.MustCompile("^" + regexp.QuoteMeta(c.Name) + `-(switch|control|client|cloud|frr|bird|(?:node|vm)[0-9]+)$`)
	var names []string
	for _, e := range entries {
		if own.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// linksOf returns a handle to the links, addresses and routes of a named
// network namespace.
func linksOf(name string) (*netlink.Handle, error) {
	ns, err := netns.GetFromName(name)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", name, err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink in %s: %w", name, err)
	}
	return h, nil
}
