package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/tree"
)

// What "make up ROUTERS=frr" does: Fairlead announces by BGP to a router with FRR and one with
// BIRD, and the client is behind them. What it tells to try works.
func TestRouters(t *testing.T) {
	var told bytes.Buffer
	c := &sandbox.Cluster{Name: "fairlead-lab-4", Nodes: 2, Routers: sandbox.RoutersFRR, Command: tree.Binary(t, "sandbox"), Progress: &told}
	t.Cleanup(func() {
		if err := c.Down(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(told.String())
		}
	})
	if err := c.Down(t.Context()); err != nil { // of a test that was killed
		t.Fatal(err)
	}
	if err := c.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, hints, _ := strings.Cut(told.String(), "Try:\n")
	var lines []string
	for line := range strings.Lines(hints) {
		if line, is := strings.CutPrefix(line, "  "); is {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if len(lines) < 10 || !strings.HasPrefix(lines[0], "export ") {
		t.Fatalf("hints are %q", lines)
	}
	run := func(line string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "bash", "-c", lines[0]+"\n"+line).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s: %w\n%s", line, err, out)
		}
		return string(out), err
	}
	hint := func(words string) string {
		t.Helper()
		i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, words) })
		if i < 0 {
			t.Fatalf("no hint has %q: %q", words, lines)
		}
		return lines[i]
	}
	shows := func(line string, yes, no []string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			out, err := run(line)
			if err != nil {
				return err
			}
			for _, word := range yes {
				if !strings.Contains(out, word) {
					return fmt.Errorf("%s does not show %q:\n%s", line, word, out)
				}
			}
			for _, word := range no {
				if strings.Contains(out, word) {
					return fmt.Errorf("%s shows %q:\n%s", line, word, out)
				}
			}
			return nil
		})
	}
	const node1, node2 = "10.77.0.11", "10.77.0.12"
	vtysh, fib := hint("vtysh"), hint("ip route show")
	shows(vtysh, []string{node1, node2, "multipath"}, nil)
	shows(fib, []string{node1, node2}, nil)
	shows(hint("birdc"), []string{node1, node2}, nil)
	shows(hint("guest get"), []string{"on node"}, nil)
	shows(hint("get bgppeers"), []string{"2 of 2 nodes have a session with the router."}, nil)

	for _, way := range []struct {
		do, undo string
		line     string
		yes, no  []string
	}{
		{"kubectl cordon", "kubectl uncordon", vtysh, []string{"graceful-shutdown"}, nil},
		{" cut node2", " heal node2", fib, []string{node1}, []string{node2}},
	} {
		if _, err := run(hint(way.do)); err != nil {
			t.Fatal(err)
		}
		shows(way.line, way.yes, way.no)
		if _, err := run(hint(way.undo)); err != nil {
			t.Fatal(err)
		}
		shows(fib, []string{node1, node2}, nil)
	}
}
