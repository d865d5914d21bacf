package browser

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fairlead.io/internal/tool"
)

// UI runs "kubectl fairlead ui" until the test ends, and returns the address of the page.
func UI(t testing.TB, kubeconfig string, args ...string) string {
	t.Helper()
	root := &cobra.Command{Use: "kubectl-fairlead", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(tool.Commands("test")...)
	root.SetArgs(append([]string{"ui", "--kubeconfig", kubeconfig}, args...))
	out := &line{first: make(chan string, 1)}
	root.SetOut(out)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("kubectl fairlead ui: %v", err)
		}
	})
	select {
	case url := <-out.first:
		return url
	case err := <-ended:
		ended <- err
		t.Fatalf("kubectl fairlead ui: %v", err)
	}
	return ""
}

// line takes the first line that is written.
type line struct {
	first chan string
	seen  bytes.Buffer
	told  bool
}

func (l *line) Write(data []byte) (int, error) {
	l.seen.Write(data)
	if text, _, ended := strings.Cut(l.seen.String(), "\n"); ended && !l.told {
		l.told = true
		l.first <- text
	}
	return len(data), nil
}

// Live is whether the live page shows the cluster as it is now.
const Live = `document.body.dataset.painted && document.body.dataset.away === 'false'`

// Row finds the row of an address on the live page.
func Row(address string) string { return fmt.Sprintf(`#matrix .row[data-key="%s"]`, address) }

// On is whether the live page shows an address on a node.
func On(address, node string) string {
	return fmt.Sprintf(`document.querySelector('%s')?.dataset.node === '%s'`, Row(address), node)
}

// Picture writes a screenshot into the directory $FAIRLEAD_SCREENSHOTS, if it is set.
func (t *Tab) Picture(name string) {
	t.b.t.Helper()
	if dir := os.Getenv("FAIRLEAD_SCREENSHOTS"); dir != "" {
		// Colours come and go slowly.
		t.b.must(t.Eval(`Promise.all(document.querySelector('main').getAnimations().map(a => a.finished)).then(() => true)`, nil))
		t.Screenshot(filepath.Join(dir, name+".png"))
	}
}
