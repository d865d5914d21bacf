package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOptionsOfV1Hierarchies(t *testing.T) {
	for super, want := range map[string]string{
		"rw,cpu,cpuacct":        "cpu,cpuacct",
		"rw,memory":             "memory",
		"rw,xattr,name=systemd": "none,name=systemd",
		"rw,release_agent=/lib/agent,clone_children,cpuset": "cpuset",
	} {
		if got := v1Options(super); got != want {
			t.Errorf("v1Options(%q) = %q, want %q", super, got, want)
		}
	}
}

// On cgroup v2 every cgroup on the way down passes its controllers on.
func TestMakeCgroupV2(t *testing.T) {
	root := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "x-sandbox"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("cgroup.controllers", "memory\n")
	write("x-sandbox/cgroup.controllers", "memory\n")
	if err := (hierarchy{dir: root, v2: true}).make("x-sandbox/node1", true); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(root, path)
		if err != nil || relErr != nil || e.Name() != "cgroup.subtree_control" {
			return err
		}
		content, err := os.ReadFile(path)
		got[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"cgroup.subtree_control": "+memory", "x-sandbox/cgroup.subtree_control": "+memory"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("controllers (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(root, "x-sandbox/node1")); err != nil {
		t.Error(err)
	}
}

func TestMakeCpusetV1(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := (hierarchy{dir: root, options: "cpuset"}).make("x-sandbox/node1", false); err != nil {
		t.Fatal(err)
	}
	cpus, err := os.ReadFile(filepath.Join(root, "x-sandbox/node1/cpuset.cpus"))
	if err != nil || string(cpus) != "0-1\n" {
		t.Errorf("cpuset.cpus of the node is %q, %v", cpus, err)
	}
}
