package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead.io/test/kit/process"
)

// agent is one at work.
type agent struct {
	node            string
	cmd             *exec.Cmd // nsenter, whose child is the agent
	pid             int       // of the agent
	health, metrics int       // ports
	log             process.Log
	ended           chan struct{}
}

var (
	running   = map[string]*agent{} // by node
	launched  []*agent
	instances int
)

// launch starts an agent on a node, with further flags.
func launch(t *testing.T, node string, flags ...string) *agent {
	t.Helper()
	return launchIn(t, node, nil, flags...)
}

// launchIn is launch with variables of the environment.
func launchIn(t *testing.T, node string, environ []string, flags ...string) *agent {
	t.Helper()
	instances++
	p := &agent{node: node, health: 20000 + instances, metrics: 25000 + instances, ended: make(chan struct{})}
	command := append(append([]string{"env"}, environ...), fairlead, "agent", "--kubeconfig", nodeKubeconfig, "--node-name", node, "--health-address", fmt.Sprintf("127.0.0.1:%d", p.health),
		"--metrics-address", fmt.Sprintf("127.0.0.1:%d", p.metrics))
	command = append(command, flags...)
	cmd, err := cluster.ExecCommand(context.Background(), node, command...)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.cmd = cmd
	launched = append(launched, p)
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	return p
}

// awaitReady waits until the agent works, or waits for another one on its node.
func (p *agent) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if !p.alive() {
			t.Fatalf("the agent on %s has ended:\n%s", p.node, p.log.String())
		}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.cmd.Process.Pid))
		if err != nil {
			return err
		}
		if p.pid, err = strconv.Atoi(strings.TrimSpace(string(children))); err != nil {
			return err
		}
		return p.ready(t.Context())
	})
}

// ready asks as kubelet would.
func (p *agent) ready(ctx context.Context) error {
	_, err := p.get(ctx, p.health, "/readyz")
	return err
}

// get asks the agent on its loopback interface.
func (p *agent) get(ctx context.Context, port int, path string) (string, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return cluster.Dial(ctx, p.node, network, address)
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return "", err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the agent on %s says %s", p.node, response.Status)
	}
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func (p *agent) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal to the agent itself. nsenter stops and goes on with it.
func (p *agent) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if p.pid == 0 { // which is this process's own group
		t.Fatalf("the agent on %s was not waited for", p.node)
	}
	if err := syscall.Kill(p.pid, s); err != nil {
		t.Fatalf("signal the agent on %s: %v", p.node, err)
	}
	if s == syscall.SIGCONT {
		_ = p.cmd.Process.Signal(s)
	}
}

// gone waits until the agent has ended.
func (p *agent) gone(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if p.alive() {
			return errors.New("the agent on " + p.node + " does not end")
		}
		return nil
	})
	if running[p.node] == p {
		delete(running, p.node)
	}
}

// kill ends the agent as a crash does.
func (p *agent) kill(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	p.gone(t)
}

// terminate ends the agent as kubelet does.
func (p *agent) terminate(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	p.gone(t)
}

// agentsRun has an agent run on each of the nodes.
func agentsRun(t *testing.T, on ...string) {
	t.Helper()
	for _, node := range on {
		if p := running[node]; p == nil || !p.alive() {
			running[node] = launch(t, node)
		}
	}
	for _, node := range on {
		running[node].awaitReady(t)
	}
}

// agentsStop ends the agents of nodes as kubelet does, if they run.
func agentsStop(t *testing.T, on ...string) {
	t.Helper()
	for _, node := range on {
		if p := running[node]; p != nil && p.alive() {
			p.terminate(t)
		}
	}
}

// killAll ends the agents that are left as a crash does.
func killAll() {
	for _, p := range launched {
		if p.alive() {
			if p.pid > 0 { // else it was never found, and 0 is this process's own group
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			<-p.ended
		}
	}
}

// endAll ends the agents that are left as kubelet does, so that they take with them
// what they have on their nodes.
func endAll(ctx context.Context) {
	defer killAll()
	for _, p := range launched {
		if p.alive() && p.pid > 0 {
			_ = syscall.Kill(p.pid, syscall.SIGTERM)
		}
	}
	_ = await(ctx, 20*time.Second, func() error {
		for _, p := range launched {
			if p.alive() {
				return errors.New("the agent on " + p.node + " does not end")
			}
		}
		return nil
	})
}

// showLogs shows what the agents have said during a test that fails.
func showLogs(t *testing.T) {
	before := map[*agent]int{}
	for _, p := range launched {
		before[p] = p.log.Len()
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, p := range launched {
			if said := p.log.From(before[p]); said != "" {
				t.Logf("agent %d on %s:\n%s", p.pid, p.node, said)
			}
		}
	})
}
