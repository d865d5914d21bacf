package ovn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/site"
)

// rowOf is the UUID of a Service's row, once router and switch have it.
func rowOf(ctx context.Context, service string) (string, error) {
	uuid, err := cluster.Nbctl(ctx, "--bare", "--columns=_uuid", "find", "Load_Balancer", "name="+namespace+"-"+service+"-tcp")
	if err != nil {
		return "", err
	}
	uuid = strings.TrimSpace(uuid)
	if uuid == "" {
		return "", errors.New("there is no row")
	}
	for table, name := range map[string]string{"Logical_Router": namespace, "Logical_Switch": namespace + "-default"} {
		attached, err := cluster.Nbctl(ctx, "--bare", "--columns=load_balancer", "find", table, "name="+name)
		if err != nil {
			return "", err
		}
		if !slices.Contains(strings.Fields(attached), uuid) {
			return "", fmt.Errorf("%s does not have it", name)
		}
	}
	return uuid, nil
}

// kube-ovn-controller deletes all load balancers that it does not know whenever it starts.
// They are back, and serve.
func TestKubeOVNStartsAgain(t *testing.T) {
	vips, before := map[string]netip.Addr{}, map[string]string{}
	for i := range 3 {
		s := newService(fmt.Sprintf("kept-%d", i), 80)
		vips[s.Name] = publish(t, s)
		var err error
		if before[s.Name], err = rowOf(t.Context(), s.Name); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
	}
	if err := cluster.Restart(t.Context(), sandbox.KubeOVN); err != nil {
		t.Fatal(err)
	}
	for s, vip := range vips {
		eventually(t, "the row of "+s+" is back", func() error {
			now, err := rowOf(t.Context(), s)
			if err == nil && now == before[s] {
				err = errors.New("it is still the old one")
			}
			return err
		})
		answers(t, sandbox.ClientHost, vip, 80, clientAddress, vms...)
	}
}

// Whatever somebody changes of a row in the database, packets are served again.
func TestRowsHeal(t *testing.T) {
	vip := publish(t, newService("healed", 80))
	name := namespace + "-healed-tcp"
	for _, harm := range [][]string{
		{"lb-del", name},
		{"clear", "Load_Balancer", name, "vips"},
		{"set", "Load_Balancer", name, fmt.Sprintf(`vips:"%s:80"="10.1.0.99:1"`, vip)},
		{"lr-lb-del", namespace, name},
		{"ls-lb-del", namespace + "-default", name},
		{"set", "Load_Balancer", name, "protocol=udp"},
	} {
		t.Run(strings.Join(harm[:1], " "), func(t *testing.T) {
			nbctl(t, harm...)
			eventually(t, "the row is as it was", func() error {
				if _, err := rowOf(t.Context(), "healed"); err != nil {
					return err
				}
				row, err := cluster.Nbctl(t.Context(), "--bare", "--columns=vips,protocol", "find", "Load_Balancer", "name="+name)
				if err == nil && row != fmt.Sprintf("%s:80=10.1.0.40:31416,10.1.0.41:31416\ntcp\n", vip) {
					err = fmt.Errorf("it has %q", row)
				}
				return err
			})
			answers(t, sandbox.ClientHost, vip, 80, clientAddress, vms...)
		})
	}
}

// The leader of the northbound database is killed. Packets do not notice, and what is
// written afterwards goes to the next leader.
func TestLeaderOfDatabaseDies(t *testing.T) {
	vip := publish(t, newService("before-death", 80))
	answers(t, sandbox.ClientHost, vip, 80, clientAddress, vms...)
	t.Cleanup(func() {
		if err := cluster.Restart(context.WithoutCancel(t.Context()), sandbox.Northbound); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.Kill(t.Context(), sandbox.Northbound); err != nil {
		t.Fatal(err)
	}
	eventually(t, "somebody answers without the leader", func() error {
		_, err := get(t.Context(), sandbox.ClientHost, vip, 80)
		return err
	})
	after := publish(t, newService("after-death", 80))
	answers(t, sandbox.ClientHost, after, 80, clientAddress, vms...)
	nbctl(t, "lb-del", namespace+"-before-death-tcp")
	eventually(t, "the row is back", func() error {
		_, err := rowOf(t.Context(), "before-death")
		return err
	})
	answers(t, sandbox.ClientHost, vip, 80, clientAddress, vms...)
}

// activeChassis is the node through which the router is reached.
func activeChassis(ctx context.Context) (string, error) {
	port, err := cluster.Sbctl(ctx, "--bare", "--columns=chassis", "find", "Port_Binding", "logical_port=cr-"+namespace+"-ext-public")
	if err != nil {
		return "", err
	}
	name, err := cluster.Sbctl(ctx, "--bare", "--columns=name", "list", "Chassis", strings.TrimSpace(port))
	return strings.TrimSpace(name), err
}

// getFrom sends a request from a port of the client host, 0 for any, and returns the port.
// The VM closes the connection, so that the port is free again at once.
func getFrom(ctx context.Context, port uint16, at netip.Addr) (uint16, error) {
	dialer := &net.Dialer{Timeout: time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(clientAddress, port))}
	conn, err := cluster.DialWith(ctx, dialer, sandbox.ClientHost, "tcp", netip.AddrPortFrom(at, 80).String())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return 0, err
	}
	answer, err := io.ReadAll(conn)
	if err == nil && len(answer) == 0 {
		err = errors.New("the connection is closed without an answer")
	}
	return conn.LocalAddr().(*net.TCPAddr).AddrPort().Port(), err
}

// The node that the router is reached through loses its power. Another one takes over, also
// for clients that use their ports again.
func TestActiveChassisDies(t *testing.T) {
	vip := publish(t, newService("survivor", 80))
	answers(t, sandbox.ClientHost, vip, 80, clientAddress, vms...)
	const node = "node1" // it is the first choice, and has no VM
	active := func(ctx context.Context) error {
		now, err := activeChassis(ctx)
		if err == nil && now != node {
			err = fmt.Errorf("that is %q", now)
		}
		return err
	}
	eventually(t, node+" is the active chassis", func() error { return active(t.Context()) })
	ports := make([]uint16, 10)
	for i := range ports {
		eventually(t, "somebody answers", func() (err error) {
			ports[i], err = getFrom(t.Context(), 0, vip)
			return err
		})
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := cluster.Restart(ctx, node); err != nil {
			t.Error(err)
		}
		// Connections break once more when it takes back what it had.
		if err := site.Await(ctx, site.Long, func() error { return active(ctx) }); err != nil {
			t.Errorf("%s is the active chassis again: %v", node, err)
		}
		if _, err := cluster.Nbctl(ctx, "--wait=hv", "sync"); err != nil {
			t.Error(err)
		}
		if _, err := site.Shell(ctx, cluster, "kubectl rollout status -n kube-system deployment/fairlead-controller --timeout=3m"); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.Kill(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	eventually(t, "somebody answers again", func() error {
		_, err := get(t.Context(), sandbox.ClientHost, vip, 80)
		return err
	})
	t.Logf("an answer %v after the death of %s", time.Since(begin).Round(100*time.Millisecond), node)
	// The new gateway does not know these ports, but the chassis of VMs may: they remember
	// connections that have ended, and may keep others of the same ports from being made.
	for _, port := range ports {
		if _, err := getFrom(t.Context(), port, vip); err != nil {
			t.Logf("from port %d again: %v", port, err)
		}
	}
	answers(t, sandbox.ClientHost, vip, 80, clientAddress, vms...)
	eventually(t, "another chassis is active", func() error {
		now, err := activeChassis(t.Context())
		if err == nil && (now == node || now == "") {
			err = fmt.Errorf("that is %q", now)
		}
		return err
	})
}
