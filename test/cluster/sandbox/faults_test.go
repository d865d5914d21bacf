package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.io/sandbox"
)

const proxyHealthOfNode2 = "10.77.0.12:10256"

// reaches reports whether the client host can connect to an address.
func reaches(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := cluster.Dial(ctx, sandbox.ClientHost, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func TestCutAndHeal(t *testing.T) {
	carrier := func(want string) {
		t.Helper()
		got, err := cluster.Exec(t.Context(), "node2", "cat", "/sys/class/net/eth0/carrier")
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("carrier of node2 is %q (%v), want %s", got, err, want)
		}
	}
	eventually(t, func(ctx context.Context) error { return reaches(ctx, proxyHealthOfNode2) })
	if err := cluster.Cut("node2"); err != nil {
		t.Fatal(err)
	}
	carrier("0")
	if err := reaches(t.Context(), proxyHealthOfNode2); err == nil {
		t.Error("node2 is reached without a cable")
	}
	if err := cluster.Heal("node2"); err != nil {
		t.Fatal(err)
	}
	carrier("1")
	eventually(t, func(ctx context.Context) error { return reaches(ctx, proxyHealthOfNode2) })
}

func TestKillAndRestartNode(t *testing.T) {
	webPods(t)
	bootID := func() string {
		t.Helper()
		id, err := cluster.Exec(t.Context(), "node2", "cat", "/proc/sys/kernel/random/boot_id")
		if err != nil {
			t.Fatal(err)
		}
		return string(id)
	}
	before := bootID()
	if err := cluster.Kill(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	if err := reaches(t.Context(), proxyHealthOfNode2); err == nil {
		t.Error("a dead node answers")
	}
	if _, err := cluster.Exec(t.Context(), "node2", "true"); err == nil {
		t.Error("a dead node runs a command")
	}
	if err := ready(t.Context(), cluster); err == nil {
		t.Error("the status does not show that a node is dead")
	}
	if err := cluster.Restart(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	if before == bootID() {
		t.Error("the node has the same boot ID as before")
	}
	eventually(t, func(ctx context.Context) error { return ready(ctx, cluster) })
	eventually(t, func(ctx context.Context) error {
		address := webPods(t)["node2"].Status.PodIP
		_, err := get(ctx, "node1", "http://"+address+":8080")
		return err
	})
}

// The nodes go on while the control plane is away, which comes back with what
// it knew.
func TestKillAndRestartControlPlane(t *testing.T) {
	address := webPods(t)["node3"].Status.PodIP
	if err := cluster.Kill(t.Context(), sandbox.ControlHost); err != nil {
		t.Fatal(err)
	}
	if _, err := kubectl(t.Context(), "get", "nodes"); err == nil {
		t.Error("a dead API server answers")
	}
	if _, err := get(t.Context(), "node1", "http://"+address+":8080"); err != nil {
		t.Errorf("without a control plane: %v", err)
	}
	if err := cluster.Restart(t.Context(), sandbox.ControlHost); err != nil {
		t.Fatal(err)
	}
	if got := webPods(t)["node3"].Status.PodIP; got != address {
		t.Errorf("the pod on node3 had the address %s, now %s", address, got)
	}
}

func TestNetworkCards(t *testing.T) {
	has := func() bool {
		_, err := cluster.Exec(t.Context(), "node3", "cat", "/sys/class/net/cloud0/carrier")
		return err == nil
	}
	if has() {
		t.Fatal("node3 has cloud0 already")
	}
	if err := cluster.AddNIC(t.Context(), "node3", "cloud0"); err != nil {
		t.Fatal(err)
	}
	if !has() {
		t.Error("node3 has no cloud0")
	}
	if _, err := cluster.Exec(t.Context(), "node3", "ip", "address", "add", "10.77.0.213/24", "dev", "cloud0"); err != nil {
		t.Error(err)
	}
	eventually(t, func(ctx context.Context) error { return reaches(ctx, "10.77.0.213:10256") })
	if err := cluster.RemoveNIC(t.Context(), "node3", "cloud0"); err != nil {
		t.Error(err)
	}
	if has() {
		t.Error("node3 still has cloud0")
	}
	if err := cluster.RemoveNIC(t.Context(), "node3", "cloud0"); err == nil {
		t.Error("a card that is not there can be removed")
	}
}

// Up on a cluster that is up starts what does not run.
func TestUpRepairs(t *testing.T) {
	if err := cluster.Kill(t.Context(), "node3"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Kill(t.Context(), sandbox.ControlHost); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error { return ready(ctx, cluster) })
	other := *cluster
	other.Nodes = 2
	if err := other.Up(t.Context()); err == nil {
		t.Error("a running cluster changes its number of nodes")
	}
}

func TestNamesAreChecked(t *testing.T) {
	for _, err := range []error{
		cluster.Cut("node4"),
		cluster.Kill(t.Context(), "client"),
		cluster.AddNIC(t.Context(), "node1", "much-too-long-name"),
		(&sandbox.Cluster{Name: "no-such-cluster"}).Heal("node1"),
		(&sandbox.Cluster{Name: "../etc"}).Down(t.Context()),
	} {
		if err == nil {
			t.Error("got no error")
		}
	}
	_, err := cluster.Exec(t.Context(), "node1", "false")
	if err == nil || !strings.Contains(fmt.Sprint(err), `run "false" on node1`) {
		t.Errorf("got %v", errors.Unwrap(err))
	}
}
