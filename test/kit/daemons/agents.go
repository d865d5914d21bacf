package daemons

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"fairlead.io/sandbox"
)

// Daemons are those of a sandbox: a controller beside the nodes and an agent on each.
type Daemons struct {
	Cluster    *sandbox.Cluster
	Binary     string
	Kubeconfig string // for programs on the hosts
	Scratch    string // a directory that nodes see, too
	Flags      []string
	Agents     map[string]*Agent // by node, filled by Run

	ports int // of the agents' health and metrics, that were given away
}

// Agent is one on a node.
type Agent struct {
	*Process // of nsenter, whose child is the agent
	Node     string

	cluster         *sandbox.Cluster
	health, metrics int // ports
	ended           chan struct{}
}

// WriteKubeconfig writes a kubeconfig for programs on the hosts of a cluster into a
// directory, and returns its path.
func WriteKubeconfig(c *sandbox.Cluster, dir string) (string, error) {
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		return "", err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://10.77.0.1:6443"
	}
	path := filepath.Join(dir, "kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// Run has an agent run on each of the nodes, and returns when all are ready.
func (d *Daemons) Run(ctx context.Context, nodes ...string) error {
	for _, node := range nodes {
		if a := d.Agents[node]; a != nil && a.Alive() {
			continue
		}
		a, err := d.Start(ctx, node)
		if err != nil {
			return err
		}
		d.Agents[node] = a
	}
	for _, node := range nodes {
		if err := d.Agents[node].Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Start starts an agent beside the one that the node may have.
func (d *Daemons) Start(ctx context.Context, node string) (*Agent, error) {
	d.ports++
	a := &Agent{Node: node, cluster: d.Cluster, health: 20000 + d.ports, metrics: 25000 + d.ports, ended: make(chan struct{})}
	args := append([]string{d.Binary, "agent", "--kubeconfig", d.Kubeconfig, "--node-name", node, "--health-address", loopback(a.health), "--metrics-address", loopback(a.metrics)}, d.Flags...)
	cmd, err := d.Cluster.ExecCommand(context.WithoutCancel(ctx), node, args...)
	if err != nil {
		return nil, err
	}
	if a.Process, err = launch(cmd, d.Scratch, "agent-"+node); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait()
		close(a.ended)
	}()
	return a, nil
}

// Control starts a controller on the host of the control plane, with further arguments
// and variables of the environment.
func (d *Daemons) Control(ctx context.Context, env []string, args ...string) (*Process, error) {
	args = slices.Concat([]string{d.Binary, "controller", "--kubeconfig", d.Kubeconfig}, d.Flags, args)
	cmd, err := d.Cluster.ExecCommand(context.WithoutCancel(ctx), sandbox.ControlHost, args...)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), env...)
	return launch(cmd, d.Scratch, "controller")
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// Ready waits until an agent works, or waits for another one on its node.
func (a *Agent) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the agent on "+a.Node+" is not ready"))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if !a.Alive() {
			lines, _ := a.LogLines()
			return fmt.Errorf("the agent on %s has ended:\n%s", a.Node, strings.Join(lines, "\n"))
		}
		if a.find() == nil {
			if _, err := a.get(ctx, a.health, "/readyz"); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// find finds the agent's own process.
func (a *Agent) find() error {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", a.Cmd.Process.Pid))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		return err // and not 0, which would be all of ours
	}
	a.PID = pid
	return nil
}

// Metrics is the text of the agent's metrics.
func (a *Agent) Metrics(ctx context.Context) (string, error) {
	return a.get(ctx, a.metrics, "/metrics")
}

// get asks the agent on its node.
func (a *Agent) get(ctx context.Context, port int, path string) (string, error) {
	return Get(ctx, a.cluster, a.Node, loopback(port), path)
}

// Get fetches a page as a program on a host would.
func Get(ctx context.Context, c *sandbox.Cluster, host, address, path string) (string, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return c.Dial(ctx, host, network, address)
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return "", err
	}
	response, err := (&http.Client{Transport: transport, Timeout: time.Second}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s%s on %s: %s", address, path, host, response.Status)
	}
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// Alive says whether the agent has not ended.
func (a *Agent) Alive() bool {
	select {
	case <-a.ended:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the agent itself. nsenter stops and goes on with it.
func (a *Agent) Signal(s syscall.Signal) error {
	if err := syscall.Kill(a.PID, s); err != nil {
		return fmt.Errorf("signal the agent on %s: %w", a.Node, err)
	}
	if s == syscall.SIGCONT {
		_ = a.Cmd.Process.Signal(s)
	}
	return nil
}

// End sends a signal and waits until the agent has ended.
func (a *Agent) End(ctx context.Context, s syscall.Signal) error {
	if err := a.Signal(s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the agent on "+a.Node+" does not end"))
	defer cancel()
	select {
	case <-a.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Kill ends an agent that nobody needs any more.
func (a *Agent) Kill() error {
	if !a.Alive() {
		return nil
	}
	if a.find() != nil && a.PID == a.Cmd.Process.Pid { // nsenter has no child yet
		_ = a.Cmd.Process.Kill()
	}
	return a.End(context.Background(), syscall.SIGKILL)
}

// Tell adds to an error how the agents' logs end.
func (d *Daemons) Tell(err *error) {
	if *err == nil {
		return
	}
	for _, node := range slices.Sorted(maps.Keys(d.Agents)) {
		if lines, logErr := d.Agents[node].LogLines(); logErr == nil {
			*err = fmt.Errorf("%w\nagent on %s:\n%s", *err, node, strings.Join(lines[max(0, len(lines)-10):], "\n"))
		}
	}
}
