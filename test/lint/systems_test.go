package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The plugin of kubectl builds for all systems on which kubectl runs, without C. For each
// of them the packages are resolved, which takes seconds: a package without a file for the
// system, with a file that needs C, or for one system only, is an error. "make plugin"
// compiles all, which takes many minutes.
func TestPluginResolvesForAllSystems(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			t.Run(system+"/"+arch, func(t *testing.T) {
				c := exec.CommandContext(t.Context(), "go", "list", "-deps", "-e", "-json=ImportPath,Imports,GoFiles,CgoFiles,Error,DepsErrors", "./cmd/kubectl-fairlead")
				c.Dir, c.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
				out, err := c.Output()
				if err != nil {
					t.Fatal(err)
				}
				packages := 0
				for d := json.NewDecoder(bytes.NewReader(out)); ; packages++ {
					var p struct {
						ImportPath        string
						Imports           []string
						GoFiles, CgoFiles []string
						Error             *struct{ Err string }
					}
					if err := d.Decode(&p); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						t.Fatal(err)
					}
					switch {
					case p.Error != nil:
						t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
					case len(p.CgoFiles) > 0:
						t.Errorf("%s needs C: %v", p.ImportPath, p.CgoFiles)
					case len(p.GoFiles) == 0 && p.ImportPath != "unsafe":
						t.Errorf("%s has no file for this system", p.ImportPath)
					case system != "linux" && (strings.Contains(p.ImportPath, "/netlink") || strings.HasSuffix(p.ImportPath, "google/nftables")):
						t.Errorf("%s needs Linux", p.ImportPath)
					case system != "linux" && strings.HasPrefix(p.ImportPath, "fairlead.io/") && slices.Contains(p.Imports, "golang.org/x/sys/unix"):
						t.Errorf("%s makes system calls, which are not the same here. Give the files that do \"//go:build linux\"", p.ImportPath)
					}
				}
				if packages < 100 {
					t.Errorf("only %d packages were found", packages)
				}
			})
		}
	}
}
