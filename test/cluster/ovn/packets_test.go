package ovn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/kubeovn"
	format "fairlead.io/internal/compat/kubedc"
	"fairlead.io/sandbox"
)

// The same address serves clients in the project's own network, a VM that reaches itself
// by it, and the ClusterIP goes on as before.
func TestInsideTheProject(t *testing.T) {
	other := startVM(t, sandbox.VM{Name: "vm3", Node: "node1", Namespace: namespace, Switch: namespace + "-default",
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.42/16")}, Gateways: []netip.Addr{netip.MustParseAddr("10.1.0.1")}})
	s := newService("inside", 80)
	create(t, s)
	create(t, endpoints(s, "10.1.0.40", "10.1.0.41"))
	clusterIP := netip.MustParseAddr(s.Spec.ClusterIP)
	own := other.Addresses[0].Addr()
	answers(t, other.Name, clusterIP, 80, own, vms...)
	vip := addresses(t, s, 1)[0]

	answers(t, other.Name, vip, 80, own, vms...)
	answers(t, other.Name, clusterIP, 80, own, vms...)
	if row := nbctl(t, "--bare", "--columns=vips", "find", "Load_Balancer", "name="+namespace+"-inside-tcp"); row != vip.String()+":80=10.1.0.40:31416,10.1.0.41:31416" {
		t.Errorf("the row has %q", row)
	}
	seen := map[reply]bool{}
	eventually(t, "vm1 is answered by itself and by vm2", func() error {
		r, err := get(t.Context(), "vm1", vip, 80)
		if err != nil {
			return err
		}
		seen[r] = true
		if !seen[reply{"vm1", vip}] || !seen[reply{"vm2", netip.MustParseAddr("10.1.0.40")}] {
			return fmt.Errorf("only %v", seen)
		}
		return nil
	})
	noRules(t)
}

// startVM starts a VM that ends with the test.
func startVM(t *testing.T, vm sandbox.VM) sandbox.VM {
	t.Helper()
	vm.Port = serverPort
	t.Cleanup(func() {
		if err := cluster.StopVM(context.WithoutCancel(t.Context()), vm.Name); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "start "+vm.Name, func() error { return cluster.StartVM(t.Context(), vm) })
	eventually(t, "every chassis knows "+vm.Name, func() error {
		_, err := cluster.Nbctl(t.Context(), "--wait=hv", "sync")
		return err
	})
	return vm
}

// A Service without endpoints refuses connections at once. As soon as it has some, it
// serves at the same address.
func TestWithoutEndpoints(t *testing.T) {
	s := newService("empty", 80)
	create(t, s)
	vip := addresses(t, s, 1)[0]
	for _, host := range []string{sandbox.ClientHost, "vm1"} {
		eventually(t, host+" is refused", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			conn, err := cluster.Dial(ctx, host, "tcp", netip.AddrPortFrom(vip, 80).String())
			if err == nil {
				conn.Close()
				t.Fatal("it is connected, with whom?")
			}
			if !errors.Is(err, syscall.ECONNREFUSED) {
				return err
			}
			return nil
		})
	}
	create(t, endpoints(s, "10.1.0.41"))
	answers(t, sandbox.ClientHost, vip, 80, clientAddress, "vm2")
	if now := addresses(t, s, 1)[0]; now != vip {
		t.Errorf("the address is %s, and was %s", now, vip)
	}
}

// UDP beside TCP at one address: replies come from it.
func TestUDP(t *testing.T) {
	s := newService("names", 53)
	s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: s.Spec.Ports[0].TargetPort})
	vip := publish(t, s)
	answers(t, sandbox.ClientHost, vip, 53, clientAddress, vms...)
	seen := map[string]bool{}
	eventually(t, "both VMs answer datagrams", func() error {
		r, err := datagram(netip.AddrPortFrom(vip, 53))
		if err != nil {
			return err
		}
		if r.from != clientAddress {
			t.Fatalf("%s has seen %s", r.vm, r.from)
		}
		seen[r.vm] = true
		if len(seen) < len(vms) {
			return fmt.Errorf("only %v", seen)
		}
		return nil
	})
}

// datagram sends one from the client host, from a port of its own. The reply must come
// from where it went to.
func datagram(to netip.AddrPort) (r reply, err error) {
	var conn net.PacketConn
	if err := cluster.In(sandbox.ClientHost, func() (err error) {
		conn, err = net.ListenPacket("udp", ":0")
		return err
	}); err != nil {
		return r, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return r, err
	}
	if _, err := conn.WriteTo([]byte("?"), net.UDPAddrFromAddrPort(to)); err != nil {
		return r, err
	}
	buffer := make([]byte, 2048)
	n, from, err := conn.ReadFrom(buffer)
	if err != nil {
		return r, err
	}
	if got := from.(*net.UDPAddr).AddrPort(); netip.AddrPortFrom(got.Addr().Unmap(), got.Port()) != to {
		return r, fmt.Errorf("the reply is from %s, not from %s", got, to)
	}
	return parseReply(string(buffer[:n]))
}

// Only clients in the ranges of a Service reach it from outside, and others as soon as the
// ranges are changed. Inside the project nothing is filtered.
func TestSourceRanges(t *testing.T) {
	s := newService("ranges", 80)
	s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
	vip := publish(t, s)
	open := publish(t, newService("open", 80))
	other := startVM(t, sandbox.VM{Name: "vm4", Node: "node1", Namespace: namespace, Switch: namespace + "-default",
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.44/16")}, Gateways: []netip.Addr{netip.MustParseAddr("10.1.0.1")}})
	answers(t, other.Name, vip, 80, other.Addresses[0].Addr(), vms...)
	setRanges := func(ranges ...string) {
		t.Helper()
		eventually(t, "change the ranges", func() error {
			if err := api.Get(t.Context(), kube.ObjectKeyFromObject(s), s); err != nil {
				return err
			}
			s.Spec.LoadBalancerSourceRanges = ranges
			return api.Update(t.Context(), s)
		})
	}
	closed := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		conn, err := cluster.Dial(ctx, sandbox.ClientHost, "tcp", netip.AddrPortFrom(vip, 80).String())
		if err == nil {
			conn.Close()
			return errors.New("the client host is connected")
		}
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		return nil
	}
	if err := closed(); err != nil {
		t.Errorf("as soon as the address is published: %v", err)
	}
	answers(t, sandbox.ClientHost, open, 80, clientAddress, vms...)
	setRanges("192.0.2.0/24", clientAddress.String()+"/32")
	answers(t, sandbox.ClientHost, vip, 80, clientAddress, vms...)
	setRanges("192.0.2.0/24")
	eventually(t, "the ranges are closed again", closed)
	setRanges()
	answers(t, sandbox.ClientHost, vip, 80, clientAddress, vms...)
}

// A client of a Service with affinity stays with its VM.
func TestAffinity(t *testing.T) {
	s := newService("faithful", 80)
	s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	vip := publish(t, s)
	var first reply
	eventually(t, "somebody answers", func() (err error) {
		first, err = get(t.Context(), sandbox.ClientHost, vip, 80)
		return err
	})
	for range 12 {
		var r reply
		eventually(t, "somebody answers again", func() (err error) {
			r, err = get(t.Context(), sandbox.ClientHost, vip, 80)
			return err
		})
		if r.vm != first.vm {
			t.Errorf("%s has answered first, then %s", first.vm, r.vm)
		}
	}
}

// outbound is the address by which the client host sees a VM that connects to it.
func outbound(t *testing.T, vm string) (seen netip.Addr) {
	t.Helper()
	var l net.Listener
	if err := cluster.In(sandbox.ClientHost, func() (err error) {
		l, err = net.Listen("tcp", clientAddress.String()+":0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan netip.Addr, 16)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
			conn.Close()
		}
	}()
	eventually(t, vm+" reaches the client host", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		conn, err := cluster.Dial(ctx, vm, "tcp", l.Addr().String())
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return <-accepted
}

// A Service at the router's own address, beside the project's SNAT by the same address.
func TestDefaultGateway(t *testing.T) {
	s := newService("at-gateway", 8080)
	s.Annotations[format.AnnotationDefaultGateway] = "true"
	if vip := publish(t, s); vip != routerAddress {
		t.Fatalf("the address is %s, want the router's own, %s", vip, routerAddress)
	}
	answers(t, sandbox.ClientHost, routerAddress, 8080, clientAddress, vms...)
	eventually(t, "the router answers pings", func() error {
		_, err := cluster.Exec(t.Context(), sandbox.ClientHost, "ping", "-c", "1", "-W", "5", routerAddress.String())
		return err
	})
	for _, vm := range vms {
		if seen := outbound(t, vm); seen != routerAddress {
			t.Errorf("%s is seen as %s, want %s", vm, seen, routerAddress)
		}
	}
	noRules(t)
}

// A floating address of a VM that is also a backend goes on as before, in both directions,
// and so does the SNAT of the others.
func TestFloatingAddressBeside(t *testing.T) {
	floating := netip.MustParseAddr("168.119.17.60")
	create(t, &kubeovn.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: "eip-fip-vm1"}, Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext-public", Type: "lrp", V4IP: floating.String()}})
	fip := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"ovnEip": "eip-fip-vm1", "vpc": namespace, "v4Ip": "10.1.0.40"}}}
	fip.SetGroupVersionKind(kubeovn.GroupVersion.WithKind("OvnFip"))
	fip.SetName("fip-vm1")
	create(t, fip)
	answers(t, sandbox.ClientHost, floating, serverPort, clientAddress, "vm1")
	rules, err := routerRules(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	vip := publish(t, newService("beside", 80))
	answers(t, sandbox.ClientHost, vip, 80, clientAddress, vms...)
	answers(t, sandbox.ClientHost, floating, serverPort, clientAddress, "vm1")
	for vm, want := range map[string]netip.Addr{"vm1": floating, "vm2": routerAddress} {
		if seen := outbound(t, vm); seen != want {
			t.Errorf("%s is seen as %s, want %s", vm, seen, want)
		}
	}
	if now, err := routerRules(t.Context()); err != nil || now != rules || !strings.Contains(now, floating.String()) {
		t.Errorf("the router's rules were\n%s\nand are\n%s (%v)", rules, now, err)
	}
}

// nobodyHas asks who has an address that the client host does not know.
func nobodyHas(ctx context.Context, a netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := cluster.Dial(ctx, sandbox.ClientHost, "tcp", netip.AddrPortFrom(a, 80).String())
	if err == nil {
		conn.Close()
		return errors.New("somebody answers")
	}
	if !errors.Is(err, syscall.EHOSTUNREACH) {
		return err
	}
	return nil
}
