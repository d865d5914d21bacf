package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Up starts the cluster and returns when all nodes are ready; it stays when
// the calling process ends. If the cluster is up, Up starts whatever of it
// does not run. What an interrupted Up has left behind is removed first.
func (c *Cluster) Up(ctx context.Context) error {
	if err := c.complete(); err != nil {
		return err
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	p := newProgress(c.Progress)
	s, err := c.readState()
	switch {
	case err == nil && s.Up && s.BootID == bootID():
		if s.Nodes != c.Nodes {
			return fmt.Errorf("start the sandbox %s: it is up with %d nodes, not %d; take it down first", c.Name, s.Nodes, c.Nodes)
		}
		if s.Cloud != c.Cloud {
			return fmt.Errorf("start the sandbox %s: it is up with the cloud %q, not %q; take it down first", c.Name, s.Cloud, c.Cloud)
		}
		if s.Network != c.Network {
			return fmt.Errorf("start the sandbox %s: it is up with the network %q, not %q; take it down first", c.Name, s.Network, c.Network)
		}
		if s.Routers != c.Routers {
			return fmt.Errorf("start the sandbox %s: it is up with the routers %q, not %q; take it down first", c.Name, s.Routers, c.Routers)
		}
		if s.ProxyMode != "" && s.ProxyMode != c.ProxyMode {
			return fmt.Errorf("start the sandbox %s: it is up with kube-proxy in mode %q, not %q; take it down first", c.Name, s.ProxyMode, c.ProxyMode)
		}
		if s.SingleStack != c.SingleStack {
			return fmt.Errorf("start the sandbox %s: it is up with other families of addresses; take it down first", c.Name)
		}
		c.CloudFlags = s.CloudFlags
		fmt.Fprintf(c.Progress, "the sandbox %s is up; making sure that everything of it runs\n", c.Name)
	case err == nil || errors.Is(err, errNotUp):
		if _, err := os.Stat(c.StateDir); err == nil {
			fmt.Fprintf(c.Progress, "an earlier start of the sandbox %s was interrupted; starting anew\n", c.Name)
		}
		if err := c.remove(ctx); err != nil {
			return err
		}
		if s, err = c.initialState(); err != nil {
			return err
		}
	default:
		return err
	}
	if err := c.startAll(ctx, p, s); err != nil {
		return err
	}
	s.Up = true
	return c.writeState(s)
}

func (c *Cluster) initialState() (state, error) {
	if err := os.MkdirAll(c.StateDir, 0o755); err != nil {
		return state{}, fmt.Errorf("make state directory: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(c.StateDir, &fs); err != nil {
		return state{}, fmt.Errorf("examine state directory: %w", err)
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		// Inside a container. Nodes mount overlays of their own, which cannot
		// be stacked on this one.
		if err := mount("tmpfs", c.StateDir, "tmpfs", 0, "mode=755"); err != nil {
			return state{}, err
		}
	}
	port, err := FreePort()
	if err != nil {
		return state{}, err
	}
	s := state{Nodes: c.Nodes, Port: port, Cloud: c.Cloud, CloudFlags: c.CloudFlags, Network: c.Network, ProxyMode: c.ProxyMode, Routers: c.Routers, SingleStack: c.SingleStack, BootID: bootID()}
	if c.Cloud != "" {
		if s.CloudPort, err = FreePort(); err != nil {
			return state{}, err
		}
	}
	return s, c.writeState(s)
}

func (c *Cluster) startAll(ctx context.Context, p *progress, s state) error {
	if err := p.step("packages of the nodes", func(note io.Writer) error { return c.installPackages(ctx, note) }); err != nil {
		return err
	}
	var kube string
	if err := p.step("Kubernetes", func(note io.Writer) (err error) {
		kube, err = KubeBinary(ctx, note)
		return err
	}); err != nil {
		return err
	}
	if err := p.step("images and tools", func(note io.Writer) error {
		if err := c.installTools(ctx, kube); err != nil {
			return err
		}
		return c.makeImages(ctx)
	}); err != nil {
		return err
	}
	if err := p.step("network", func(note io.Writer) error {
		if err := c.makeSwitch(); err != nil {
			return err
		}
		for _, h := range c.hosts() {
			if err := c.connect(h); err != nil {
				return err
			}
		}
		return c.makePKI(s.Port)
	}); err != nil {
		return err
	}
	if err := p.step("control plane", func(note io.Writer) error { return c.startControlPlane(ctx, s.Port) }); err != nil {
		return err
	}
	if c.Cloud != "" {
		if err := p.step("cloud "+c.Cloud, func(io.Writer) error { return c.startCloud(ctx, s.CloudPort) }); err != nil {
			return err
		}
	}
	if c.Routers != "" {
		if err := p.step("routers", func(io.Writer) error { return c.startRouters(ctx) }); err != nil {
			return err
		}
	}
	if c.Network == OVN {
		if err := p.step("databases of OVN", func(io.Writer) error { return c.startCentral(ctx) }); err != nil {
			return err
		}
	}
	if err := p.step("nodes", func(note io.Writer) error { return c.startNodes(ctx, note, c.nodes()) }); err != nil {
		return err
	}
	if c.Network == OVN {
		return p.step("a project of kube-dc", func(io.Writer) error { return c.startProject(ctx) })
	}
	return nil
}

// startNodes starts nodes and waits until they are ready.
func (c *Cluster) startNodes(ctx context.Context, note io.Writer, nodes []host) error {
	config, err := c.adminConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	start := make(map[host]time.Time)
	for _, n := range nodes {
		if err := c.registerNode(ctx, client, n); err != nil {
			return err
		}
		pid, err := c.nodePID(n)
		if err != nil {
			return err
		}
		if pid == 0 {
			start[n] = time.Now()
		}
		if err := c.startNode(ctx, n); err != nil {
			return err
		}
	}
	var wait sync.WaitGroup
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		wait.Go(func() {
			if errs[i] = c.waitForNode(ctx, client, n, start[n]); errs[i] == nil {
				fmt.Fprintln(note, n.name, "is ready")
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// adminConfig is RESTConfig while the cluster is not yet up.
func (c *Cluster) adminConfig() (*rest.Config, error) { return adminConfig(c.Kubeconfig()) }
