package failover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
	"fairlead.io/sandbox"
	"fairlead.io/test/netns"
)

// dhcpServer is Debian's dnsmasq beside the cluster. Leases last two minutes, its
// least; those of IPv4 are to be renewed every three seconds.
type dhcpServer struct {
	t      *testing.T
	leases string // file
	cmd    *exec.Cmd
	log    logBuffer
}

func newDHCPServer(t *testing.T) *dhcpServer {
	t.Helper()
	netns.Need(t, "dnsmasq")
	d := &dhcpServer{t: t, leases: filepath.Join(t.TempDir(), "leases")}
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			t.Logf("dnsmasq:\n%s", d.log.from(0))
		}
	})
	return d
}

// start starts the server with these addresses to give.
func (d *dhcpServer) start(v4, v6 string) {
	d.t.Helper()
	cmd, err := cluster.ExecCommand(context.Background(), sandbox.ControlHost, "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0",
		"--interface=eth0", "--except-interface=lo", "--bind-interfaces", "--no-ping", "--user=root", "--log-dhcp", "--dhcp-authoritative",
		"--pid-file=", "--dhcp-leasefile="+d.leases, "--dhcp-range="+v4+",120s", "--dhcp-range="+v6+",64,120s",
		"--dhcp-option=option:T1,3", "--dhcp-option=option:T2,5")
	if err != nil {
		d.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = &d.log, &d.log
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.cmd = cmd
}

func (d *dhcpServer) stop() {
	if d.cmd != nil {
		_, _ = d.cmd.Process.Kill(), d.cmd.Wait()
		d.cmd = nil
	}
}

// forget has the server know nothing of leases any more.
func (d *dhcpServer) forget() {
	d.t.Helper()
	d.stop()
	if err := os.Remove(d.leases); err != nil {
		d.t.Fatal(err)
	}
}

// has returns the addresses that are leased, as the server says.
func (d *dhcpServer) has() (out []netip.Addr) {
	text, err := os.ReadFile(d.leases)
	if err != nil {
		return nil
	}
	for field := range strings.FieldsSeq(string(text)) {
		if a, err := lb.ParseAddr(field); err == nil && strings.ContainsAny(field, ".:") && slices.ContainsFunc(leasable, func(p netip.Prefix) bool { return p.Contains(a) }) {
			out = append(out, a)
		}
	}
	return out
}

var leasable = []netip.Prefix{netip.MustParsePrefix("10.77.0.224/27"), netip.MustParsePrefix("fd77::2:0/112")}

const (
	leased4, leased6 = "10.77.0.230,10.77.0.239", "fd77::2:30,fd77::2:39"
	other4           = "10.77.0.240,10.77.0.249"
)

// leased has a Service ask for addresses from the DHCP server.
func leased(s *corev1.Service) {
	s.Annotations = map[string]string{"kube-vip.io/loadbalancerIPs": "0.0.0.0,::"}
}

// leasesOf returns what agents say of the leases of a Service.
func leasesOf(t *testing.T, s *corev1.Service) (out []v1alpha1.Lease) {
	t.Helper()
	var list v1alpha1.AgentList
	if err := api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for of, l := range v1alpha1.LatestLeases(list.Items) {
		if of.Service == client.ObjectKeyFromObject(s).String() {
			out = append(out, l)
		}
	}
	return out
}

// A Service gets its addresses from a DHCP server. They stay the same when its
// node dies, when agents are replaced and while the server is away; the server
// can take them back, and has them back when the Service is deleted.
func TestLeases(t *testing.T) {
	d := newDHCPServer(t)
	d.start(leased4, leased6)
	create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubevip"}, Data: map[string]string{"cidr-default": "0.0.0.0/32,::/128"}})
	w := newWorld(t, leased)
	for _, addr := range w.addrs {
		if !slices.Contains(d.has(), addr) {
			t.Errorf("%s is no lease: %v", addr, d.has())
		}
	}
	first := slices.Clone(w.addrs)
	same := func() {
		t.Helper()
		if w.addrs = addressesOf(t, w.service); !slices.Equal(w.addrs, first) {
			t.Fatalf("the addresses were %v and are %v", first, w.addrs)
		}
	}

	t.Run("node dies", func(t *testing.T) {
		former := w.settled()
		began := time.Now()
		if err := cluster.Kill(t.Context(), former); err != nil {
			t.Fatal(err)
		}
		next := w.moved(former)
		t.Logf("leased addresses are answered for again %v after %s died", time.Since(began).Round(10*time.Millisecond), former)
		w.settled()
		if err := cluster.Restart(t.Context(), former); err != nil {
			t.Fatal(err)
		}
		agentsRun(t, nodes...)
		if owner := w.settled(); owner != next {
			t.Errorf("after %s came back %s has the addresses, not %s", former, owner, next)
		}
		same()
	})

	t.Run("agent replaced", func(t *testing.T) {
		owner := w.settled()
		connections := connecting(t, w.addrs...)
		old, next := running[owner], launch(t, owner)
		next.awaitReady(t)
		old.terminate(t)
		running[owner] = next
		if now := w.settled(); now != owner {
			t.Errorf("the addresses moved from %s to %s", owner, now)
		}
		if failed := connections(); len(failed) > 0 {
			t.Errorf("connections failed: %q", failed)
		}
		same()
	})

	t.Run("agent terminated", func(t *testing.T) {
		former := w.settled()
		connections := connecting(t, w.addrs...)
		running[former].terminate(t)
		if w.settled() == former {
			t.Errorf("%s still has the addresses", former)
		}
		if failed := beyondMove(connections()); len(failed) > 0 {
			t.Errorf("connections failed: %q", failed)
		}
		agentsRun(t, nodes...)
		same()
	})

	t.Run("server gone and back", func(t *testing.T) {
		d.stop()
		awaitEvent(t, "web", "fairlead-agent", "NoLeaseServer", "No DHCP server answers")
		w.settled()
		d.start(leased4, leased6)
		eventually(t, func() error {
			for _, l := range leasesOf(t, w.service) {
				if l.Message != "" {
					return errors.New(l.Message)
				}
			}
			return nil
		})
		w.settled()
		same()
	})

	t.Run("taken back", func(t *testing.T) {
		d.forget()
		d.start(other4, leased6)
		awaitEvent(t, "web", "fairlead-agent", "LeaseLost", "took it back")
		eventually(t, func() error {
			w.addrs = addressesOf(t, w.service)
			if w.addrs[0] == first[0] {
				return fmt.Errorf("still %s", first[0])
			}
			return nil
		})
		w.settled()
	})

	t.Run("deleted", func(t *testing.T) {
		if err := api.Delete(t.Context(), w.service); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if left := d.has(); slices.Contains(left, w.addrs[0]) || slices.Contains(left, w.addrs[1]) {
				return fmt.Errorf("leased are %v", left)
			}
			where, err := interfaces()
			if err == nil && len(where) > 0 {
				err = fmt.Errorf("left on interfaces: %v", where)
			}
			return err
		})
	})
}
