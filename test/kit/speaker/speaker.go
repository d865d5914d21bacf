// Package speaker stands for the BGP speakers that MetalLB runs in its native mode: one session
// with a router from each node, IPv4 only, without options, that announces a few prefixes and
// ends with a Cease. It has nothing of Fairlead's own sessions.
package speaker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

const (
	hold = 90
	// keepalive is how often it says that it is there, again how long after a failure.
	keepalive, again = 3 * time.Second, 200 * time.Millisecond
)

// Speaker is one that runs.
type Speaker struct {
	as       uint32
	prefixes []netip.Prefix
	dial     func(context.Context) (net.Conn, error)

	stop    context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	last error // of the last attempt
}

// Start connects until it is stopped: dial is from the node to the router.
func Start(as uint32, dial func(context.Context) (net.Conn, error), prefixes ...netip.Prefix) *Speaker {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Speaker{as: as, prefixes: prefixes, dial: dial, stop: cancel}
	s.running.Go(func() {
		for ctx.Err() == nil {
			err := s.session(ctx)
			s.mu.Lock()
			s.last = err
			s.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(again):
			}
		}
	})
	return s
}

// Stop ends the session with a Cease.
func (s *Speaker) Stop() {
	s.stop()
	s.running.Wait()
}

// Err is why the last session failed.
func (s *Speaker) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// session speaks until ctx ends or the router does not want it.
func (s *Speaker) session(ctx context.Context) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return err
	}
	open, err := packet.NewBGPOpenMessage(uint16(s.as), hold, local.Addr(), []packet.OptionParameterInterface{
		packet.NewOptionParameterCapability([]packet.ParameterCapabilityInterface{
			packet.NewCapMultiProtocol(packet.RF_IPv4_UC), packet.NewCapFourOctetASNumber(s.as)})})
	if err != nil {
		return err
	}
	if err := send(conn, open); err != nil {
		return err
	}
	received, failed := make(chan uint8), make(chan error, 1)
	go func() {
		from := bufio.NewReader(conn)
		for {
			kind, err := receive(from)
			if err != nil {
				failed <- err
				return
			}
			select {
			case received <- kind:
			case <-ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTicker(keepalive)
	defer tick.Stop()
	var established bool
	for {
		var err error
		select {
		case <-ctx.Done():
			return send(conn, packet.NewBGPNotificationMessage(packet.BGP_ERROR_CEASE, packet.BGP_ERROR_SUB_ADMINISTRATIVE_SHUTDOWN, nil))
		case err = <-failed:
		case <-tick.C:
			err = send(conn, packet.NewBGPKeepAliveMessage())
		case kind := <-received:
			switch {
			case kind == packet.BGP_MSG_OPEN:
				err = send(conn, packet.NewBGPKeepAliveMessage())
			case kind == packet.BGP_MSG_KEEPALIVE && !established:
				established, err = true, s.announce(conn, local.Addr())
			}
		}
		if err != nil {
			return err
		}
	}
}

// announce sends a message for each prefix, as MetalLB does.
func (s *Speaker) announce(to net.Conn, nextHop netip.Addr) error {
	for _, p := range s.prefixes {
		hop, err := packet.NewPathAttributeNextHop(nextHop)
		if err != nil {
			return err
		}
		route, err := packet.NewIPAddrPrefix(p)
		if err != nil {
			return err
		}
		attributes := []packet.PathAttributeInterface{
			packet.NewPathAttributeOrigin(0),
			packet.NewPathAttributeAsPath([]packet.AsPathParamInterface{packet.NewAs4PathParam(packet.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{s.as})}),
			hop,
		}
		if err := send(to, packet.NewBGPUpdateMessage(nil, attributes, []packet.PathNLRI{{NLRI: route}})); err != nil {
			return err
		}
	}
	return nil
}

func send(to net.Conn, m *packet.BGPMessage) error {
	b, err := m.Serialize()
	if err != nil {
		return err
	}
	_, err = to.Write(b)
	return err
}

// receive reads one message and returns its type.
func receive(from *bufio.Reader) (uint8, error) {
	b := make([]byte, packet.BGP_HEADER_LENGTH)
	if _, err := io.ReadFull(from, b); err != nil {
		return 0, err
	}
	var h packet.BGPHeader
	if err := h.DecodeFromBytes(b); err != nil {
		return 0, err
	}
	body := make([]byte, int(h.Len)-packet.BGP_HEADER_LENGTH)
	if _, err := io.ReadFull(from, body); err != nil {
		return 0, err
	}
	if h.Type == packet.BGP_MSG_NOTIFICATION && len(body) >= 2 {
		return 0, fmt.Errorf("the router ended the session: %d/%d", body[0], body[1])
	}
	return h.Type, nil
}
