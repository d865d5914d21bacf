// Package northbound runs the real databases of OVN for tests: one server, or a cluster
// of three, and ovn-northd if a test needs it. They use sockets in a directory of the
// test; no packets are forwarded.
package northbound

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/process"
)

// Where Debian puts the schemas.
const (
	northSchema = "/usr/share/ovn/ovn-nb.ovsschema"
	southSchema = "/usr/share/ovn/ovn-sb.ovsschema"
)

// Server is an ovsdb-server with a northbound database.
type Server struct {
	t       testing.TB
	dir     string
	name    string
	remotes []string
	process *process.Process
	south   string // where the southbound database is
}

// Start starts a server. It listens on a unix socket, and on remotes such as
// "ptcp:6641:127.0.0.1".
func Start(t testing.TB, remotes ...string) *Server {
	t.Helper()
	netns.Need(t, "ovn-northd")
	s := &Server{t: t, dir: directory(t), name: "nb", remotes: remotes}
	run(t, "ovsdb-tool", "create", s.path("db"), northSchema)
	s.Start()
	return s
}

// StartWithout starts a server whose database lacks columns, as "Table.column", or whole
// tables, as those of other versions of OVN do.
func StartWithout(t testing.TB, lacking ...string) *Server {
	t.Helper()
	netns.Need(t, "ovn-northd")
	s := &Server{t: t, dir: directory(t), name: "nb"}
	raw, err := os.ReadFile(northSchema)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema, "cksum")
	tables := schema["tables"].(map[string]any)
	for _, l := range lacking {
		table, column, one := strings.Cut(l, ".")
		if one {
			delete(tables[table].(map[string]any)["columns"].(map[string]any), column)
		} else {
			delete(tables, table)
		}
	}
	if raw, err = json.Marshal(schema); err == nil {
		err = os.WriteFile(s.path("ovsschema"), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	run(t, "ovsdb-tool", "create", s.path("db"), s.path("ovsschema"))
	s.Start()
	return s
}

// Upgrade gives the database of a server that does not run the schema of this OVN.
func (s *Server) Upgrade() {
	s.t.Helper()
	run(s.t, "ovsdb-tool", "convert", s.path("db"), northSchema)
}

// directory is short: the path of a socket has at most 107 characters.
func directory(t testing.TB) string {
	dir, err := os.MkdirTemp("", "nb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (s *Server) path(kind string) string { return filepath.Join(s.dir, s.name+"."+kind) }

// Socket is the path of the unix socket.
func (s *Server) Socket() string { return s.path("sock") }

// Endpoint is where clients connect.
func (s *Server) Endpoint() string { return "unix:" + s.Socket() }

// Start starts the server again, with the database that it had.
func (s *Server) Start() {
	s.t.Helper()
	args := []string{s.path("db"), "--remote=punix:" + s.Socket(), "--unixctl=" + s.path("ctl")}
	for _, r := range s.remotes {
		if strings.HasPrefix(r, "--") {
			args = append(args, r)
		} else {
			args = append(args, "--remote="+r)
		}
	}
	s.process = process.Start(s.t, exec.Command("ovsdb-server", args...))
	netns.Eventually(s.t, time.Minute, s.name+" listens", func() bool {
		_, err := os.Stat(s.path("ctl"))
		return err == nil
	})
}

// Kill ends the server with SIGKILL, whatever it is doing.
func (s *Server) Kill() {
	s.process.Kill()
	_ = os.Remove(s.path("ctl"))
	_ = os.Remove(s.Socket())
}

// Ctl runs ovn-nbctl and returns what it prints.
func (s *Server) Ctl(args ...string) string {
	s.t.Helper()
	return run(s.t, "ovn-nbctl", append([]string{"--no-leader-only", "--timeout=30", "--db=" + s.Endpoint()}, args...)...)
}

// Northd starts ovn-northd with a southbound database, and returns its process.
func (s *Server) Northd() *process.Process {
	s.t.Helper()
	return s.northd(s.Endpoint())
}

func (s *Server) northd(north string) *process.Process {
	s.t.Helper()
	south := &Server{t: s.t, dir: directory(s.t), name: "sb"}
	run(s.t, "ovsdb-tool", "create", south.path("db"), southSchema)
	south.Start()
	s.south = south.Endpoint()
	return process.Start(s.t, exec.Command("ovn-northd", "--ovnnb-db="+north, "--ovnsb-db="+south.Endpoint(), "--unixctl="+south.path("northd")))
}

// South is where the southbound database is that Northd has started.
func (s *Server) South() string { return s.south }

// Transactions is how often something was written.
func (s *Server) Transactions() int {
	s.t.Helper()
	out := run(s.t, "ovsdb-tool", "show-log", s.path("db"))
	return strings.Count(out, "record ")
}

// Cluster is a raft of three servers.
type Cluster []*Server

// StartCluster starts one.
func StartCluster(t testing.TB) Cluster {
	t.Helper()
	netns.Need(t, "ovn-northd")
	dir := directory(t)
	var c Cluster
	address := func(name string) string { return "unix:" + filepath.Join(dir, name+".raft") }
	for i := range 3 {
		s := &Server{t: t, dir: dir, name: fmt.Sprintf("s%d", i)}
		if i == 0 {
			run(t, "ovsdb-tool", "create-cluster", s.path("db"), northSchema, address(s.name))
		} else {
			run(t, "ovsdb-tool", "join-cluster", s.path("db"), "OVN_Northbound", address(s.name), address("s0"))
		}
		s.Start()
		c = append(c, s)
	}
	netns.Eventually(t, time.Minute, "all have joined", func() bool {
		for _, s := range c {
			if !strings.Contains(s.status(), "Status: cluster member") {
				return false
			}
		}
		return c.Leader() != nil
	})
	return c
}

// Endpoints of all servers.
func (c Cluster) Endpoints() []string {
	out := make([]string, len(c))
	for i, s := range c {
		out[i] = s.Endpoint()
	}
	return out
}

// Northd starts ovn-northd for the cluster.
func (c Cluster) Northd() *process.Process {
	c[0].t.Helper()
	return c[0].northd(strings.Join(c.Endpoints(), ","))
}

// Try runs ovn-nbctl with the leader. It fails if there is none.
func (c Cluster) Try(args ...string) (string, error) {
	out, err := exec.Command("ovn-nbctl", append([]string{"--timeout=5", "--db=" + strings.Join(c.Endpoints(), ",")}, args...)...).Output()
	return string(out), err
}

// Leader of those that run; nil if there is none.
func (c Cluster) Leader() *Server {
	for _, s := range c {
		if strings.Contains(s.status(), "Role: leader") {
			return s
		}
	}
	return nil
}

// status is empty if the server does not run.
func (s *Server) status() string {
	out, _ := exec.Command("ovs-appctl", "-t", s.path("ctl"), "cluster/status", "OVN_Northbound").CombinedOutput()
	return string(out)
}

// TransferLeadership lets another server lead, without anybody dying.
func (s *Server) TransferLeadership() {
	s.t.Helper()
	run(s.t, "ovs-appctl", "-t", s.path("ctl"), "cluster/failure-test", "transfer-leadership")
}

func run(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}
