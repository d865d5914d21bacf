package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"fairlead.io/sandbox"
)

// way is how addresses are announced.
type way struct {
	name   string
	column string // of the table
	pool   string // what people apply
	passes []pass
}

// pass is a part of the tests, and what it needs of the routers.
type pass struct {
	name      string
	perClient bool // routers choose a node for each client, not for each connection
	has       func(test string) bool
}

func affinity(test string) bool { return strings.Contains(test, "session affinity") }
func others(test string) bool   { return !affinity(test) }
func all(string) bool           { return true }

// With BGP, each node keeps its own record of clients. Session affinity needs routers that send
// a client to the same node.
var ways = []way{
	{"layer2", "layer 2", "examples/pool.yaml", []pass{{"all", false, all}}},
	{"bgp", "BGP", "examples/bgp.yaml", []pass{{"others", false, others}, {"affinity", true, affinity}}},
}

func wayNames() []string {
	var names []string
	for _, w := range ways {
		names = append(names, w.name)
	}
	return names
}

// programs are the paths of what is built for the tests.
type programs struct{ kubetest, agnhost, coredns string }

func buildPrograms(ctx context.Context) (p programs, err error) {
	for _, b := range []struct {
		path *string
		sandbox.Binary
	}{
		{&p.kubetest, sandbox.Binary{Name: "kubetest", Module: "kubetest", Package: ".", Title: "Kubernetes' tests", Takes: "minutes on two cores"}},
		{&p.agnhost, sandbox.Binary{Name: "agnhost", Module: "kubetest", Package: "k8s.io/kubernetes/test/images/agnhost", Title: "agnhost", Takes: "about a minute on two cores"}},
		{&p.coredns, sandbox.Binary{Name: "coredns", Module: "coredns", Package: ".", Title: "CoreDNS", Takes: "about a minute on two cores"}},
	} {
		if *b.path, err = b.Path(ctx, os.Stderr); err != nil {
			return p, err
		}
	}
	return p, nil
}

// try runs the tests of the table that are chosen, and those that it does not have, in a cluster of
// their own, which it removes again.
func (p programs) try(ctx context.Context, w way, t *table, chosen []string, keep bool) (results map[string]result, err error) {
	dir, err := filepath.Abs(filepath.Join("bin", "conformance", w.name))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, err
	}
	// The tests also ask for the IPv6 addresses of Nodes, where a Service of one family does not
	// answer.
	c := &sandbox.Cluster{Name: "fairlead-conformance-" + w.name, Routers: sandbox.RoutersFRR, SingleStack: true}
	if !keep {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
			defer cancel()
			err = errors.Join(err, c.Down(ctx))
		}()
	}
	kubeconfig, err := p.prepare(ctx, c, dir, w.pool)
	if err != nil {
		return nil, err
	}
	results = map[string]result{}
	for _, pass := range w.passes {
		var but []string
		for _, r := range t.rows {
			if !slices.Contains(chosen, r.test) || !pass.has(r.test) {
				but = append(but, r.test)
			}
		}
		if len(but) == len(t.rows) {
			continue
		}
		if err := chooseNodes(c, pass.perClient); err != nil {
			return nil, err
		}
		some, err := p.runSuite(ctx, c, kubeconfig, dir, pass.name, but)
		if err != nil {
			return nil, err
		}
		maps.Copy(results, some)
	}
	return results, nil
}

// prepare starts the cluster with Fairlead, a pool, DNS, and the image of the tests. It returns a
// kubeconfig for programs on the client host.
func (p programs) prepare(ctx context.Context, c *sandbox.Cluster, dir, pool string) (string, error) {
	if err := c.Up(ctx); err != nil {
		return "", err
	}
	if err := c.InstallFairlead(ctx); err != nil {
		return "", err
	}
	images, err := p.images(ctx, dir)
	if err != nil {
		return "", err
	}
	for i, image := range images {
		archive := filepath.Join(dir, fmt.Sprintf("conformance-%d.tar", i))
		if err := errors.Join(image.WriteFile(archive), c.Load(ctx, archive), os.Remove(archive)); err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{
		{"apply", "--filename", pool},
		{"apply", "--filename", "test/conformance/dns.yaml"},
		{"rollout", "status", "deployment/coredns", "--namespace", "kube-system", "--timeout", "2m"},
	} {
		cmd := exec.CommandContext(ctx, filepath.Join(c.StateDir, "bin", "kubectl"), append([]string{"--kubeconfig", c.Kubeconfig()}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		return "", err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://10.77.0.1:6443"
	}
	path := filepath.Join(c.StateDir, "client.kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// images are those of the tests' pods and of the DNS server. Debian's wget tries twenty times, the
// one that the tests expect once.
func (p programs) images(ctx context.Context, dir string) ([]sandbox.Image, error) {
	ref, err := exec.CommandContext(ctx, p.kubetest, "--agnhost-image").Output()
	if err != nil {
		return nil, fmt.Errorf("find the name of the tests' image: %w", err)
	}
	wgetrc := filepath.Join(dir, "wgetrc")
	if err := os.WriteFile(wgetrc, []byte("tries = 1\n"), 0o644); err != nil {
		return nil, err
	}
	agnhost := sandbox.Image{
		Ref: strings.TrimSpace(string(ref)), Entrypoint: []string{"/agnhost"},
		Files: []sandbox.ImageFile{{Path: "/agnhost", Source: p.agnhost}, {Path: "/etc/wgetrc", Source: wgetrc}},
	}
	for _, program := range []struct{ path, name string }{{"/bin/sh", "sh"}, {"/usr/bin/curl", "curl"}, {"/usr/bin/nc", "nc.openbsd"}, {"/usr/bin/wget", "wget"}} {
		if err := agnhost.AddProgram(ctx, program.path, program.name); err != nil {
			return nil, err
		}
	}
	dns := sandbox.Image{Ref: "fairlead/coredns:dev", Entrypoint: []string{"/coredns"}, Files: []sandbox.ImageFile{{Path: "/coredns", Source: p.coredns}}}
	return []sandbox.Image{agnhost, dns}, nil
}

// chooseNodes has routers choose a node by the addresses of a connection, or also by its ports.
func chooseNodes(c *sandbox.Cluster, perClient bool) error {
	policy := "1"
	if perClient {
		policy = "0"
	}
	for _, router := range []string{sandbox.FRRHost, sandbox.BIRDHost} {
		if err := c.In(router, func() error {
			return os.WriteFile("/proc/sys/net/ipv4/fib_multipath_hash_policy", []byte(policy), 0o644)
		}); err != nil {
			return fmt.Errorf("configure the router %s: %w", router, err)
		}
	}
	return nil
}
