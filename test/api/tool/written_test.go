package tool

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/tool"
	"fairlead.io/test/kit/rig"
)

// No command writes anything but check --on-nodes, which makes DaemonSets and removes them.
func TestNothingIsWritten(t *testing.T) {
	const version = "writes"
	w := newWorld(t)
	w.install("n1")
	w.pool("edge", "192.0.2.16/30")
	w.service("web", nil, "n1")
	w.announced("web")
	t.Setenv("KUBECONFIG", theRig.API.Kubeconfig)
	archive := filepath.Join(t.TempDir(), "archive")
	all := []string{"status", "why shop/web", "why 192.0.2.16", "ip", "ip --free", "plan --drain n1", "plan --remove 192.0.2.1", "check", "check --on-nodes --wait 1s",
		"migrate --from metallb", "bundle --file " + archive, "ui"}
	ran := map[string]bool{}
	for _, command := range all {
		args := strings.Fields(command)
		ran[args[0]] = true
		limit := time.Minute
		if args[0] == "ui" { // it runs until it is ended
			limit = 3 * time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		plainly(ctx, version, args...)
		cancel()
	}
	for _, c := range tool.Commands(version) {
		if !ran[c.Name()] {
			t.Errorf("%s was not run", c.Name())
		}
	}
	// A write of another client is in the log after all of theirs.
	last := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "last-write"}}
	if err := theRig.Client.Create(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "the log is written", func() error {
		writes, err := theRig.API.WriteCounts()
		if err != nil {
			return err
		}
		logged, made, removed := false, 0, 0
		for write, n := range writes {
			switch {
			case write.Name == last.Name:
				logged = true
			case write.UserAgent != "kubectl-fairlead/"+version:
			case write.Resource == "daemonsets" && write.Verb == "create" && write.Name == "": // the server makes up the end of its name
				made += n
			case write.Resource == "daemonsets" && write.Verb == "delete" && strings.HasPrefix(write.Name, "fairlead-check-"):
				removed += n
			default:
				t.Fatalf("a command has written %+v", write)
			}
		}
		if !logged || made != 1 || removed == 0 {
			return fmt.Errorf("the last write is there: %t; check --on-nodes has made %d and removed %d", logged, made, removed)
		}
		return nil
	})
	if err := theRig.Client.Delete(t.Context(), last); err != nil {
		t.Fatal(err)
	}
}
