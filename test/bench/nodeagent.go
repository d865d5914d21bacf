package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// nodeAgent is an agent on a node.
type nodeAgent struct {
	*process // of nsenter, whose child is the agent
	node     string
	health   int // port
	ended    chan struct{}
}

// run has an agent run on each of the nodes, and returns when all are ready.
func (l *lan) run(ctx context.Context, nodes ...string) error {
	for _, node := range nodes {
		if a := l.agents[node]; a != nil && a.alive() {
			continue
		}
		a, err := l.start(ctx, node)
		if err != nil {
			return err
		}
		l.agents[node] = a
	}
	for _, node := range nodes {
		if err := l.ready(ctx, l.agents[node]); err != nil {
			return err
		}
	}
	return nil
}

// start starts an agent beside the one that the node may have.
func (l *lan) start(ctx context.Context, node string) (*nodeAgent, error) {
	l.ports++
	a := &nodeAgent{node: node, health: 20000 + l.ports, ended: make(chan struct{})}
	args := append([]string{l.binary, "agent", "--kubeconfig", l.kubeconfig, "--node-name", node, "--health-address", fmt.Sprintf("127.0.0.1:%d", a.health)}, l.configured()...)
	cmd, err := l.cluster.ExecCommand(context.WithoutCancel(ctx), node, args...)
	if err != nil {
		return nil, err
	}
	if a.process, err = launch(cmd, l.scratch); err != nil {
		return nil, err
	}
	go func() {
		_, _ = cmd.Wait(), a.log.Close()
		close(a.ended)
	}()
	return a, nil
}

// ready waits until an agent works, or waits for another one on its node.
func (l *lan) ready(ctx context.Context, a *nodeAgent) error {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return l.cluster.Dial(ctx, a.node, network, address)
	}}
	asker := &http.Client{Transport: transport, Timeout: time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", a.health), nil)
	if err != nil {
		return err
	}
	ask := func() error {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", a.cmd.Process.Pid))
		if err != nil {
			return err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
		if err != nil {
			return err // and not 0, which would be all of ours
		}
		a.pid = pid
		response, err := asker.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
	return pollFor(ctx, time.Minute, "the agent on "+a.node+" is ready", 20*time.Millisecond, func() (bool, error) {
		if !a.alive() {
			lines, _ := a.logLines()
			return false, fmt.Errorf("the agent on %s has ended:\n%s", a.node, strings.Join(lines, "\n"))
		}
		return ask() == nil, ctx.Err()
	})
}

func (a *nodeAgent) alive() bool {
	select {
	case <-a.ended:
		return false
	default:
		return true
	}
}

// end sends a signal and waits until the agent has ended.
func (a *nodeAgent) end(ctx context.Context, s syscall.Signal) error {
	if err := syscall.Kill(a.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end the agent on %s: %w", a.node, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the agent on "+a.node+" does not end"))
	defer cancel()
	select {
	case <-a.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// kill ends an agent that nobody needs any more.
func (a *nodeAgent) kill() error {
	if !a.alive() {
		return nil
	}
	return a.end(context.Background(), syscall.SIGKILL)
}

// tell adds to an error how the agents' logs end.
func (l *lan) tell(err *error) {
	if *err == nil {
		return
	}
	for _, a := range l.agents {
		if lines, logErr := a.logLines(); logErr == nil {
			*err = fmt.Errorf("%w\nagent on %s:\n%s", *err, a.node, strings.Join(lines[max(0, len(lines)-10):], "\n"))
		}
	}
}
