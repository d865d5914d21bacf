package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchy is a mounted cgroup hierarchy: one on a machine with cgroup v2,
// several on a machine with v1, where one of them may be v2 but is not asked
// for controllers.
type hierarchy struct {
	dir     string // where it is mounted
	v2      bool
	options string // of a v1 mount: its controllers, or its name
}

// cgroupHierarchies finds the hierarchies of this machine.
func cgroupHierarchies() ([]hierarchy, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	defer f.Close()
	var all []hierarchy
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mount, super, ok := strings.Cut(lines.Text(), " - ")
		before, after := strings.Fields(mount), strings.Fields(super)
		if !ok || len(before) < 5 || len(after) < 3 {
			continue
		}
		h := hierarchy{dir: before[4]}
		if h.dir != cgroupRoot && filepath.Dir(h.dir) != cgroupRoot {
			continue
		}
		switch after[0] {
		case "cgroup2":
			h.v2 = true
		case "cgroup":
			h.options = v1Options(after[2])
		default:
			continue
		}
		all = append(all, h)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("find cgroups: none is mounted at %s", cgroupRoot)
	}
	return all, nil
}

// v1Options picks those of a mounted hierarchy that mount it once more.
func v1Options(super string) string {
	var keep []string
	for _, o := range strings.Split(super, ",") {
		switch {
		case strings.HasPrefix(o, "name="):
			keep = append(keep, "none", o)
		case strings.Contains(o, "="), slices.Contains([]string{"rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode"}, o):
		default:
			keep = append(keep, o)
		}
	}
	return strings.Join(keep, ",")
}

// unified reports whether the machine has cgroup v2 only.
func unified(all []hierarchy) bool { return len(all) == 1 && all[0].v2 && all[0].dir == cgroupRoot }

// cgroup is the path of the cluster's cgroup in every hierarchy, or of one
// below it.
func (c *Cluster) cgroup(parts ...string) string {
	return filepath.Join(append([]string{c.Name + "-sandbox"}, parts...)...)
}

// makeCgroup makes a cgroup in every hierarchy, with the controllers that the
// hierarchy's root has.
func makeCgroup(path string) error {
	all, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := h.make(path, unified(all)); err != nil {
			return fmt.Errorf("make cgroup %s: %w", filepath.Join(h.dir, path), err)
		}
	}
	return nil
}

// make makes the cgroup and those above it. With controllers, each passes all
// it has on to those below; the root of the machine goes on doing so
// afterwards, for somebody else may rely on it by then.
func (h hierarchy) make(path string, controllers bool) error {
	dir := h.dir
	for _, part := range strings.Split(path, "/") {
		if controllers {
			if err := enableControllers(dir); err != nil {
				return err
			}
		}
		parent := dir
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// v1: a new cpuset is empty and takes no process.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			if h.v2 || !slices.Contains(strings.Split(h.options, ","), "cpuset") {
				continue
			}
			value, err := os.ReadFile(filepath.Join(parent, name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// enableControllers lets the children of a v2 cgroup have all its controllers.
func enableControllers(dir string) error {
	available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(available)) {
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("enable controller %s below %s: the cgroup has processes of its own, as in a container: %w", controller, dir, err)
		}
		if err != nil {
			return fmt.Errorf("enable controller %s below %s: %w", controller, dir, err)
		}
	}
	return nil
}

// joinCgroup moves the calling process into a cgroup of every hierarchy.
func joinCgroup(path string) error {
	all, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := os.WriteFile(filepath.Join(h.dir, path, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return fmt.Errorf("join cgroup %s of %s: %w", path, h.dir, err)
		}
	}
	return nil
}

// removeCgroup removes a cgroup and those below it from every hierarchy, once
// the last of their processes is gone.
func removeCgroup(ctx context.Context, path string) error {
	all, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, h := range all {
		for {
			err := removeDirs(filepath.Join(h.dir, path))
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EBUSY) || pause(ctx) != nil {
				return fmt.Errorf("remove cgroup: %w", err)
			}
		}
	}
	return nil
}

// removeDirs removes a tree of directories; the files of cgroups cannot be
// removed and need not be.
func removeDirs(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeDirs(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}
