package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Northbound is what [Cluster.Kill] takes for the leader of the servers with OVN's
// northbound database, and [Cluster.Restart] for those that do not run.
const Northbound = "northbound"

// Ports of OVN's databases on the control host. The northbound one has three servers.
var northboundPorts = []int{6641, 6651, 6661}

const southboundPort = 6642

func (c *Cluster) centralFile(name string) string { return c.path("ovn", name) }

func northboundServer(i int) string { return fmt.Sprintf("nb%d", i+1) }

// startCentral starts OVN's databases and ovn-northd on the control host, unless they
// run. The databases are those of a former start.
func (c *Cluster) startCentral(ctx context.Context) error {
	dir := c.path("ovn")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of OVN: %w", err)
	}
	for i, port := range northboundPorts {
		name := northboundServer(i)
		raft := func(name string) string { return "unix:" + c.centralFile(name+".raft") }
		made := []string{"create-cluster", c.centralFile(name + ".db"), "/usr/share/ovn/ovn-nb.ovsschema", raft(name)}
		if i > 0 {
			made = []string{"join-cluster", c.centralFile(name + ".db"), "OVN_Northbound", raft(name), raft(northboundServer(0))}
		}
		if err := c.startDatabase(ctx, name, port, made...); err != nil {
			return err
		}
	}
	if err := c.startDatabase(ctx, "sb", southboundPort, "create", c.centralFile("sb.db"), "/usr/share/ovn/ovn-sb.ovsschema"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.retry(ctx, func() error { return c.joined(ctx) }); err != nil {
		return fmt.Errorf("start the northbound database: %w", err)
	}
	return c.startDaemon(ctx, daemon{
		host: ControlHost, dir: dir, name: "ovn-northd", files: "northd",
		args: []string{"--ovnnb-db=" + c.northboundSockets(), "--ovnsb-db=unix:" + c.centralFile("sb.sock")},
	})
}

// startDatabase starts a server whose database is made the first time as ovsdb-tool is
// told.
func (c *Cluster) startDatabase(ctx context.Context, name string, port int, made ...string) error {
	file := c.centralFile(name + ".db")
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		if _, err := c.run(ctx, ControlHost, nil, "ovsdb-tool", made...); err != nil {
			return err
		}
	}
	return c.startDaemon(ctx, daemon{
		host: ControlHost, dir: c.path("ovn"), name: "ovsdb-server", files: name,
		args: []string{file, "--remote=punix:" + c.centralFile(name+".sock"), fmt.Sprintf("--remote=ptcp:%d:%s", port, controlHost.addresses()[0].Addr())},
	})
}

// raftStatus is what a server says of the cluster; empty if it does not run.
func (c *Cluster) raftStatus(ctx context.Context, name string) string {
	out, err := exec.CommandContext(ctx, "ovs-appctl", "--timeout=5", "-t", c.centralFile(name+".ctl"), "cluster/status", "OVN_Northbound").Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// joined fails until all servers have joined the cluster and one of them leads.
func (c *Cluster) joined(ctx context.Context) error {
	leads := false
	for i := range northboundPorts {
		status := c.raftStatus(ctx, northboundServer(i))
		if !strings.Contains(status, "Status: cluster member") {
			return fmt.Errorf("%s has not joined the others", northboundServer(i))
		}
		leads = leads || strings.Contains(status, "Role: leader")
	}
	if !leads {
		return errors.New("none of the servers leads")
	}
	return nil
}

// killNorthbound kills the leader of the servers with the northbound database.
func (c *Cluster) killNorthbound(ctx context.Context) error {
	for i := range northboundPorts {
		name := northboundServer(i)
		if strings.Contains(c.raftStatus(ctx, name), "Role: leader") {
			return killFound(ctx, func() (int, error) {
				return c.find(ControlHost, func(p process) bool { return slices.Contains(p.args, "--pidfile="+c.centralFile(name+".pid")) })
			})
		}
	}
	return errors.New("kill the leader of the northbound database: there is none")
}

// NorthboundServers are where pods, nodes and the control host reach OVN's northbound
// database.
func (c *Cluster) NorthboundServers() []string {
	var all []string
	for _, port := range northboundPorts {
		all = append(all, fmt.Sprintf("tcp:%s:%d", controlHost.addresses()[0].Addr(), port))
	}
	return all
}

// northboundSockets are where programs of this machine reach the database.
func (c *Cluster) northboundSockets() string {
	var all []string
	for i := range northboundPorts {
		all = append(all, "unix:"+filepath.Join(c.path("ovn"), northboundServer(i)+".sock"))
	}
	return strings.Join(all, ",")
}

// Nbctl runs ovn-nbctl and returns what it prints.
func (c *Cluster) Nbctl(ctx context.Context, args ...string) (string, error) {
	return c.run(ctx, ControlHost, nil, "ovn-nbctl", append([]string{"--timeout=30", "--db=" + c.northboundSockets()}, args...)...)
}

// Sbctl runs ovn-sbctl and returns what it prints.
func (c *Cluster) Sbctl(ctx context.Context, args ...string) (string, error) {
	return c.run(ctx, ControlHost, nil, "ovn-sbctl", append([]string{"--timeout=30", "--db=unix:" + c.centralFile("sb.sock")}, args...)...)
}
