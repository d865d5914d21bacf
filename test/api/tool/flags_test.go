package tool

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/charts"
	"fairlead.io/internal/tool"
	"fairlead.io/test/kit/rig"
)

// plainly runs a command with the kubeconfig of the environment, as somebody with this version
// of the plugin. It ends with the context.
func plainly(ctx context.Context, version string, args ...string) (string, int) {
	root := &cobra.Command{Use: "kubectl-fairlead", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(tool.Commands(version)...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if text := tool.Message(err); text != "" {
		fmt.Fprintln(&out, text)
	}
	return out.String(), tool.ExitCode(err)
}

// flagProbe shows that a command reads a flag: with it, and with what else it needs, the
// command says something that it does not say without it.
type flagProbe struct{ with, says string }

// probes are those of flags that several commands have.
var probes = map[string]flagProbe{
	"kubeconfig":        {"--kubeconfig /none", "no cluster to ask"},
	"context":           {"--context nowhere", `context "nowhere" does not exist`},
	"timeout":           {"--timeout 1ns", "context deadline exceeded"},
	"output":            {"-o nonsense", `--output is "nonsense"`},
	"config":            {"--config /none", "no such file"},
	"metallb-namespace": {"--metallb-namespace No_Name", `--metallb-namespace is "No_Name"`},
}

// Each flag of each command is read: one that is not has no place in it.
func TestEachFlagIsRead(t *testing.T) {
	theRig.InstallMetalLB(t, charts.MetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	w := newWorld(t)
	w.install("n1")
	w.pool("edge", "192.0.2.16/30")
	w.service("web", nil, "n1")
	w.announced("web")
	t.Setenv("KUBECONFIG", theRig.API.Kubeconfig)
	dir := t.TempDir()
	file := filepath.Join(dir, "service.yaml")
	if err := os.WriteFile(file, []byte("{apiVersion: v1, kind: Service, metadata: {name: new}, spec: {type: LoadBalancer, ports: [{port: 80}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "archive")
	own := map[string]flagProbe{
		"why namespace": {"web -n shop", "shop/web"}, "why config": {"web --config /none", "no such file"},
		"ip pool": {"--pool ghost", `there is no pool "ghost"`}, "ip free": {"--free", "FREE"}, "ip by-namespace": {"--by-namespace", "QUOTA"},
		"plan namespace": {"-f " + file + " -n shop", "service shop/new"}, "plan filename": {"-f /none", "no such file"},
		"plan drain": {"--drain ghost", "there is no node ghost"}, "plan remove": {"--remove 192.0.2.19", "remove addresses 192.0.2.19"},
		"check timeout": {"--timeout 1ns", "cannot list pods"}, "check namespace": {"-n shop -f " + file, "service shop/new"}, "check config": {"--config /none -f " + file, "no such file"},
		"check metallb-namespace": {"--metallb-namespace No_Name -f " + file, "No_Name"}, "check filename": {"-f /none", "no such file"},
		"check install-namespace": {"--install-namespace nowhere", "namespace nowhere does not exist"}, "check on-nodes": {"--on-nodes --install-namespace nowhere", "SKIP nodes: namespace nowhere does not exist"},
		"check gossip-port": {"--gossip-port 7999", "port 7999 of its node"},
		"check image":       {"--image example.com/fairlead:1", "--image is only for --on-nodes"}, "check wait": {"--wait 1s", "--wait is only for --on-nodes"},
		"migrate from": {"--from ghost", `--from is "ghost"`}, "migrate verify": {"--verify /none", "no such file"}, "migrate alongside": {"--alongside", "--alongside is only for"},
		"migrate second-address": {"--from cloudscale --second-address n1=192.0.2.1", "--second-address is only for"},
		"migrate image":          {}, // the steps of TestMigrate have it
		"bundle file":            {"--file " + archive, archive + " has the facts of "},
		"ui port":                {"--port " + port, "address already in use"},
	}
	base := map[string]string{"why": "shop/web", "plan": "--drain n1", "migrate": "--from metallb", "bundle": "--file " + filepath.Join(dir, "unused")}
	instead := []string{"why namespace", "why config", "plan namespace", "plan filename", "plan remove", "plan drain", "migrate from", "migrate second-address", "bundle file"} // of the base
	for _, c := range tool.Commands("flags") {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name := c.Name() + " " + f.Name
			t.Run(name, func(t *testing.T) {
				probe, has := own[name]
				if !has {
					probe, has = probes[f.Name]
				}
				switch {
				case !has:
					t.Fatal("nothing shows that the command reads this flag: remove it, or add a probe")
				case probe.says == "":
					return
				}
				args := strings.Fields(probe.with)
				if !slices.Contains(instead, name) {
					args = append(strings.Fields(base[c.Name()]), args...)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if got, _ := plainly(ctx, "flags", append([]string{c.Name()}, args...)...); !strings.Contains(got, probe.says) {
					t.Errorf("%q is missing in\n%s", probe.says, got)
				}
			})
		})
	}
}

// MetalLB's objects count in the namespace that is named: in the cluster, for a shell that
// completes names, and in files.
func TestMetalLBNamespace(t *testing.T) {
	theRig.InstallMetalLB(t, charts.MetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	newWorld(t)
	t.Setenv("KUBECONFIG", theRig.API.Kubeconfig)
	const pool = `{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: lan, namespace: elsewhere}, spec: {addresses: [192.0.2.64/30]}}`
	apply(t, pool)
	file := filepath.Join(t.TempDir(), "pool.yaml")
	if err := os.WriteFile(file, []byte(pool), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"status", "ip --free", "check -f " + file} {
		without, _ := run(t, strings.Fields(command)...)
		with, _ := run(t, strings.Fields(command+" --metallb-namespace elsewhere")...)
		if strings.Contains(without, "metallb/lan") || !strings.Contains(with, "metallb/lan") {
			t.Errorf("%s says\n%s\nand in that namespace\n%s", command, without, with)
		}
	}
	if got := complete(t, "ip", "--metallb-namespace", "elsewhere", "--pool", "meta"); got != "metallb/lan" {
		t.Errorf("the pool is completed by %q", got)
	}
	// A shell has the configuration, too: with none, nothing is completed.
	if got := complete(t, "ip", "--metallb-namespace", "elsewhere", "--config", "/none", "--pool", "meta"); got == "metallb/lan" {
		t.Error("--config is not read")
	}
}

// The image and the port of check --on-nodes are those of its pods.
func TestCheckOnNodesReadsItsFlags(t *testing.T) {
	w := newWorld(t)
	w.install("n1")
	done := make(chan string)
	go func() {
		got, _ := run(t, "check", "--on-nodes", "--image", "example.com/fairlead:1.2.3", "--gossip-port", "7999", "--wait", "3s")
		done <- got
	}()
	rig.Eventually(t, "the DaemonSet has the image and the port", func() error {
		var list appsv1.DaemonSetList
		if err := theRig.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, d := range list.Items {
			k := d.Spec.Template.Spec.Containers[0]
			if k.Image == "example.com/fairlead:1.2.3" && strings.Contains(strings.Join(append(k.Command, k.Args...), " "), "7999") {
				return nil
			}
		}
		return fmt.Errorf("there are %d", len(list.Items))
	})
	if got := <-done; !strings.Contains(got, "no pod declares port 7999 of its node") || !strings.Contains(got, "SKIP node n1: not checked: ") {
		t.Error(got)
	}
}
