package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/client"
	"fairlead.io/test/kit/talk"
)

const (
	talkPort = 18090
	// openConnections are established when a node is drained.
	openConnections = 1000
	// streamed is how many bytes of one connection are timed.
	streamed = 256 << 20
	// scanned is how many packets of connections arrive that nobody has.
	scanned = 100_000
)

// connectionMoves: what becomes of established connections when their node is drained, with the
// limit of the pool and without; how fast one is through two nodes; and what packets cost that
// belong to no connection.
func connectionMoves(ctx context.Context, s settings) (rows []Row, err error) {
	l := s.lan
	if err := l.up(ctx, s); err != nil {
		return nil, err
	}
	defer func() { l.Tell(&err) }()
	if err := l.Run(ctx, l.nodes...); err != nil {
		return nil, err
	}
	m := &mover{lan: l}
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.end(ctx)) }()
	for _, limit := range []string{"15m", "0s"} {
		broken, carried, direct, err := m.drain(ctx, limit)
		if err != nil {
			return nil, err
		}
		row := info(fmt.Sprintf("node drained, limit %s: broken of %d established connections", limit, openConnections), float64(broken), "")
		if limit == "0s" {
			rows = append(rows, row)
			continue
		}
		rows = append(rows, row.exactly(0),
			info("throughput of one connection, there and back, direct", direct, "MB/s"),
			info("the same through two nodes, of direct", carried/direct, "").atLeast(0.8))
		with, without := m.scans[0], m.scans[1]
		rows = append(rows, info(fmt.Sprintf("%d packets of unknown connections, while nothing is carried", scanned), without.Seconds(), "s"),
			info("the same while connections are carried, of that", with.Seconds()/without.Seconds(), "").atMost(1.25))
	}
	return rows, nil
}

// mover has a Service whose connections stay open.
type mover struct {
	*lan
	service *corev1.Service
	addrs   []netip.AddrPort
	asker   *client.Asker
	server  net.Listener
	// scans are how long packets took while connections were carried, and before.
	scans [2]time.Duration
}

func (m *mover) begin(ctx context.Context) (err error) {
	if err := m.Cluster.In(sandbox.ControlHost, func() (err error) {
		m.server, err = net.Listen("tcp", fmt.Sprintf(":%d", talkPort))
		return err
	}); err != nil {
		return err
	}
	go talk.Serve(m.server)
	m.service, err = m.newService(ctx, metav1.NamespaceDefault, "talk", func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "talk", Port: talkPort})
	})
	if err != nil {
		return err
	}
	for family, address := range map[discoveryv1.AddressType]string{discoveryv1.AddressTypeIPv4: "10.77.0.1", discoveryv1.AddressTypeIPv6: "fd77::1"} {
		err := m.api.Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.service.Namespace, GenerateName: "talk-", Labels: map[string]string{discoveryv1.LabelServiceName: m.service.Name},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: m.service.Name, UID: m.service.UID}}},
			AddressType: family,
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("talk"), Port: ptr.To[int32](talkPort), Protocol: ptr.To(corev1.ProtocolTCP)}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		})
		if err != nil {
			return err
		}
	}
	if m.addrs, err = m.addresses(ctx, m.service); err != nil {
		return err
	}
	m.asker, err = client.Ask(m.Cluster, m.addrs[0].Addr())
	return err
}

func (m *mover) end(ctx context.Context) error {
	m.asker.Close()
	return errors.Join(m.server.Close(), m.api.Delete(context.WithoutCancel(ctx), m.service))
}

// drain opens connections, drains their node, and returns how many are broken; and how many
// megabytes a second went through one, after and before.
func (m *mover) drain(ctx context.Context, limit string) (broken int, carried, direct float64, err error) {
	pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}
	patch := fmt.Appendf(nil, `{"spec":{"advertise":{"keepConnections":%q}}}`, limit)
	if err := m.api.Patch(ctx, pool, kube.RawPatch(types.MergePatchType, patch)); err != nil {
		return 0, 0, 0, err
	}
	owner, err := m.settled(ctx, m.asker, m.addrs, calm)
	if err != nil {
		return 0, 0, 0, err
	}
	var open []*talk.Conn
	defer func() {
		var closing sync.WaitGroup
		for _, c := range open {
			closing.Go(c.Close)
		}
		closing.Wait()
	}()
	for i := range openConnections + 2 {
		c, err := talk.Open(ctx, m.Cluster, "tcp", netip.AddrPortFrom(m.addrs[i%len(m.addrs)].Addr(), talkPort))
		if err != nil {
			return 0, 0, 0, err
		}
		open = append(open, c)
	}
	first, second := open[openConnections], open[openConnections+1]
	if limit != "0s" {
		if direct, err = stream(first); err != nil {
			return 0, 0, 0, err
		}
		if m.scans[1], err = m.scan(); err != nil {
			return 0, 0, 0, err
		}
	}
	if err := m.cordon(ctx, owner, true); err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, m.cordon(context.WithoutCancel(ctx), owner, false)) }()
	if _, err := m.only(ctx, m.asker, func(node string) bool { return node != owner }); err != nil {
		return 0, 0, 0, err
	}
	for _, c := range open[:openConnections] {
		if c.Say(64) != nil {
			broken++
		}
	}
	progress("  drained, limit %s: %d of %d connections broken", limit, broken, openConnections)
	if limit != "0s" {
		if m.scans[0], err = m.scan(); err != nil {
			return 0, 0, 0, err
		}
		if carried, err = stream(second); err != nil {
			return 0, 0, 0, err
		}
	}
	return broken, carried, direct, nil
}

// stream returns how many megabytes go through a connection in a second.
func stream(c *talk.Conn) (float64, error) {
	began := time.Now()
	c.Stream(streamed, 0)
	c.Wait()
	return streamed / 1e6 / time.Since(began).Seconds(), c.Err()
}

// scan is the shorter of two.
func (m *mover) scan() (time.Duration, error) {
	first, err := m.scanOnce()
	if err != nil {
		return 0, err
	}
	second, err := m.scanOnce()
	return min(first, second), err
}

// scanOnce sends packets in the middle of connections that do not exist, and returns how long that
// took. On one machine, the node handles a packet before the next is sent.
func (m *mover) scanOnce() (took time.Duration, err error) {
	to := m.addrs[0].Addr()
	err = m.Cluster.In(sandbox.ClientHost, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		began := time.Now()
		for i := range scanned {
			if err := unix.Sendto(fd, ack(netip.MustParseAddr("10.77.0.100"), to, uint16(1024+i%60000), uint32(i)), 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
				return err
			}
		}
		took = time.Since(began)
		return nil
	})
	return took, err
}

// ack is a TCP segment in the middle of a connection.
func ack(from, to netip.Addr, port uint16, seq uint32) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b[0:], port)
	binary.BigEndian.PutUint16(b[2:], talkPort)
	binary.BigEndian.PutUint32(b[4:], seq)
	binary.BigEndian.PutUint32(b[8:], 1)
	b[12], b[13] = 5<<4, 0x10
	binary.BigEndian.PutUint16(b[14:], 1024)
	pseudo := append(append(from.AsSlice(), to.AsSlice()...), 0, unix.IPPROTO_TCP, 0, 20)
	var sum uint32
	for _, part := range [][]byte{pseudo, b} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(b[16:], ^uint16(sum))
	return b
}
