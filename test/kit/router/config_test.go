package router

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/tree"
)

var fence = regexp.MustCompile("(?s)```(frr|bird)\n(.*?)```")

// What people may copy from the guides, and what the sandbox runs, is accepted by the daemons.
func TestConfigurations(t *testing.T) {
	check := map[string][]string{"frr": {"vtysh", "-C", "-f"}, "bird": {"bird", "-p", "-c"}}
	for _, argv := range check {
		netns.Need(t, argv[0])
	}
	load := func(name, kind, file string) {
		t.Helper()
		argv := append(check[kind], file)
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	for kind := range check {
		load("the sandbox", kind, tree.Path("sandbox/router/"+kind+".conf"))
	}
	guides, err := filepath.Glob(tree.Path("docs/*/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, guide := range guides {
		text, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllSubmatch(text, -1) {
			kind := string(m[1])
			found[kind]++
			file := filepath.Join(t.TempDir(), kind+".conf")
			if err := os.WriteFile(file, m[2], 0o644); err != nil {
				t.Fatal(err)
			}
			load(guide, kind, file)
		}
	}
	if found["frr"] == 0 || found["bird"] == 0 {
		t.Errorf("examples in the guides: %v", found)
	}
}
