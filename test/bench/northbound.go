package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"fairlead.io/test/kit/netns"
)

// northbound is a real northbound database with one router.
type northbound struct {
	dir, socket    string
	router, inside string // UUIDs
	processes      []*exec.Cmd
}

func startNorthbound(ctx context.Context, northd bool) (n *northbound, err error) {
	if err := netns.Install(ctx, "ovn-northd"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "nb")
	if err != nil {
		return nil, err
	}
	n = &northbound{dir: dir, socket: filepath.Join(dir, "nb.sock")}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.stop())
		}
	}()
	databases := []string{"nb"}
	if northd {
		databases = append(databases, "sb")
	}
	for _, name := range databases {
		file := filepath.Join(dir, name)
		if out, err := exec.CommandContext(ctx, "ovsdb-tool", "create", file+".db", "/usr/share/ovn/ovn-"+name+".ovsschema").CombinedOutput(); err != nil {
			return n, fmt.Errorf("ovsdb-tool: %w\n%s", err, out)
		}
		if err := n.run("ovsdb-server", file+".db", "--remote=punix:"+file+".sock", "--unixctl="+file+".ctl"); err != nil {
			return n, err
		}
		if err := listening(ctx, file+".sock"); err != nil {
			return n, err
		}
	}
	if northd {
		if err := n.run("ovn-northd", "--ovnnb-db=unix:"+n.socket, "--ovnsb-db=unix:"+filepath.Join(dir, "sb.sock"), "--unixctl="+filepath.Join(dir, "northd.ctl")); err != nil {
			return n, err
		}
	}
	if _, err := n.ctl(ctx, "--", "init", "--", "lr-add", "project", "--", "ls-add", "project-default", "--", "ls-add", namespace+"-default",
		"--", "lrp-add", "project", "project-inside", "02:00:00:00:00:01", "10.0.0.1/16", "--", "lrp-add", "project", "project-ext-public", "02:00:00:00:00:02", "168.119.0.1/16",
		"--", "lrp-set-gateway-chassis", "project-ext-public", "ch1"); err != nil {
		return n, err
	}
	return n, n.find(ctx)
}

// find looks for the router and the switch.
func (n *northbound) find(ctx context.Context) error {
	out, err := n.ctl(ctx, "--", "--columns=_uuid", "find", "Logical_Router", "name=project", "--", "--columns=_uuid", "find", "Logical_Switch", "name=project-default")
	if err != nil {
		return err
	}
	_, err = fmt.Sscan(out, &n.router, &n.inside)
	return err
}

// ctl runs ovn-nbctl and returns what it prints.
func (n *northbound) ctl(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "ovn-nbctl", append([]string{"--bare", "--db=unix:" + n.socket, "--timeout=60"}, args...)...).Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		return "", fmt.Errorf("ovn-nbctl: %w\n%s", err, failed.Stderr)
	}
	return string(out), err
}

func (n *northbound) run(program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.processes = append(n.processes, cmd)
	return nil
}

// listening returns when something accepts connections there.
func listening(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := net.Dial("unix", socket)
		if err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (n *northbound) stop() error {
	for _, p := range n.processes {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
	return os.RemoveAll(n.dir)
}

// rawConn sends operations, and looks at no more of the answer than whether it is one.
type rawConn struct {
	net.Conn
	answers *json.Decoder
}

func (n *northbound) dial() (*rawConn, error) {
	c, err := net.Dial("unix", n.socket)
	for errors.Is(err, syscall.EAGAIN) { // the server takes one after the other
		<-time.After(time.Millisecond)
		c, err = net.Dial("unix", n.socket)
	}
	if err != nil {
		return nil, err
	}
	return &rawConn{c, json.NewDecoder(c)}, nil
}

const deleteAll = `{"op":"delete","table":"Load_Balancer","where":[]}`

func (c *rawConn) transact(operations string) error {
	if _, err := fmt.Fprintf(c, `{"id":0,"method":"transact","params":["OVN_Northbound",%s]}`, operations); err != nil {
		return err
	}
	var answer struct {
		Result []struct {
			Error, Details string
		}
	}
	if err := c.answers.Decode(&answer); err != nil {
		return err
	}
	for _, r := range answer.Result {
		if r.Error != "" {
			return fmt.Errorf("%s: %s", r.Error, r.Details)
		}
	}
	return nil
}

// bare inserts the rows of n Services, so many at once, each in a transaction of its own,
// then deletes them. It returns how long inserting took.
func (n *northbound) bare(ctx context.Context, services, atOnce int) (took time.Duration, err error) {
	conns := make(chan *rawConn, atOnce)
	for range atOnce {
		c, err := n.dial()
		if err != nil {
			return 0, err
		}
		defer c.Close()
		conns <- c
	}
	began := time.Now()
	err = concurrently(ctx, services, atOnce, func(i int) error {
		c := <-conns
		defer func() { conns <- c }()
		return c.transact(n.operations(i))
	})
	took = time.Since(began)
	if err != nil {
		return 0, err
	}
	c := <-conns
	return took, c.transact(deleteAll)
}

// operations are those that Fairlead sends for a new Service with one of those numbers.
func (n *northbound) operations(i int) string {
	return n.insert("project", "web-"+strconv.Itoa(i), strconv.Itoa(i), fmt.Sprintf("168.119.%d.%d", byte(i>>8), byte(i)))
}

// insert is what Fairlead sends for a new Service.
func (n *northbound) insert(namespace, service, uid, address string) string {
	return fmt.Sprintf(`{"op":"wait","table":"Load_Balancer","where":[["name","==","%[1]s"]],"columns":["name"],"until":"!=","rows":[{"name":"%[1]s"}],"timeout":0},`+
		`{"op":"wait","table":"Logical_Router","where":[["_uuid","==",["uuid","%[2]s"]]],"columns":["name"],"until":"==","rows":[{"name":"project"}],"timeout":0},`+
		`{"op":"wait","table":"Logical_Switch","where":[["_uuid","==",["uuid","%[3]s"]]],"columns":["name"],"until":"==","rows":[{"name":"project-default"}],"timeout":0},`+
		`{"op":"insert","table":"Load_Balancer","uuid-name":"row","row":{"name":"%[1]s","protocol":"tcp","vips":["map",[["%[4]s:80","10.0.0.11:80,10.0.0.12:80"]]],"options":["map",[["reject","true"]]],`+
		`"external_ids":["map",[["vendor","bare"],["fairlead.io/cluster","bench"],["fairlead.io/service","%[5]s"],["fairlead.io/service-uid","%[6]s"]]]}},`+
		`{"op":"mutate","table":"Logical_Router","where":[["_uuid","==",["uuid","%[2]s"]]],"mutations":[["load_balancer","insert",["set",[["named-uuid","row"]]]]]},`+
		`{"op":"mutate","table":"Logical_Switch","where":[["_uuid","==",["uuid","%[3]s"]]],"mutations":[["load_balancer","insert",["set",[["named-uuid","row"]]]]]},`+
		`{"op":"mutate","table":"NB_Global","where":[],"mutations":[["nb_cfg","+=",1]]}`,
		namespace+"-"+service+"-tcp", n.router, n.inside, address, namespace+"/"+service, uid)
}
