// Package prometheus runs Debian's Prometheus for tests: promtool, which tests rules, and
// the server, which reads metrics. They are taken out of the package and not installed, so
// that no service starts.
package prometheus

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// extract downloads the package with the checks of apt, and keeps its programs in $1.
const extract = `set -e
test -x "$1/prometheus" && exit
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && chmod 755 "$work" && cd "$work"
apt-get -q download prometheus || { apt-get -q -o DPkg::Lock::Timeout=300 update && apt-get -q download prometheus; }
dpkg-deb --extract prometheus_*.deb extracted
mkdir -p "$1"
mv extracted/usr/bin/promtool extracted/usr/bin/prometheus "$1"`

// Program returns the path of a program of the package: promtool or prometheus. Tests of
// several packages may run at once: they take turns.
func Program(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "fairlead", "prometheus")
	lock := filepath.Join(os.TempDir(), "fairlead-apt.lock")
	if out, err := exec.CommandContext(t.Context(), "flock", lock, "sh", "-c", extract, "sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("get Debian's package prometheus: %v\n%s", err, out)
	}
	return filepath.Join(dir, name)
}
