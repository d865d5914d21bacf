package sandbox

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that outlives us has what it was given, and nothing that we have inherited.
func TestNothingInheritedGoesOn(t *testing.T) {
	inherited, err := unix.Open("/dev/zero", unix.O_RDONLY, 0) // as from a shell: not to be closed
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	given, err := os.Open("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	has := func() string {
		cmd := exec.CommandContext(t.Context(), "ls", "-l", "/proc/self/fd")
		cmd.ExtraFiles = []*os.File{given}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if before := has(); !strings.Contains(before, "/dev/zero") {
		t.Fatalf("the test shows nothing:\n%s", before)
	}
	disinherit()
	if after := has(); strings.Contains(after, "/dev/zero") || !strings.Contains(after, "3 -> /dev/full") {
		t.Errorf("a child has\n%s", after)
	}
}
