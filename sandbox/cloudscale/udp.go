package cloudscale

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// maxDatagram is the most that UDP carries.
const maxDatagram = 65535

// udpFront passes datagrams on. Those of one client go to the same member,
// until there were none for the timeout.
type udpFront struct {
	conn     *net.UDPConn
	state    atomic.Pointer[frontState]
	mu       sync.Mutex
	sessions map[netip.AddrPort]*net.UDPConn
}

func (f *Forwarder) listenUDP(ctx context.Context, at netip.AddrPort, c frontConfig, b *backend) (*front, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	u := &udpFront{conn: conn, sessions: make(map[netip.AddrPort]*net.UDPConn)}
	u.state.Store(&frontState{c, b})
	ctx, end := context.WithCancel(ctx)
	f.work.Go(func() {
		defer u.closeAll()
		u.receive(ctx, &f.work)
	})
	context.AfterFunc(ctx, func() { conn.Close() })
	return &front{
		lb: c.lb, close: end, // answers could not be sent from its address any more
		set: func(c frontConfig, b *backend) { u.state.Store(&frontState{c, b}) },
	}, nil
}

func (u *udpFront) receive(ctx context.Context, work *sync.WaitGroup) {
	buffer := make([]byte, maxDatagram)
	for {
		n, client, err := u.conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			continue // what an earlier datagram has met
		}
		client = netip.AddrPortFrom(client.Addr().Unmap(), client.Port())
		state := u.state.Load()
		if !mayUse(client.Addr(), state.config.allowed) {
			continue
		}
		u.mu.Lock()
		session := u.sessions[client]
		u.mu.Unlock()
		if session == nil {
			m, done, ok := state.backend.pick(client.Addr(), nil)
			if !ok {
				continue
			}
			if session, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(m.address)); err != nil {
				done()
				continue
			}
			u.mu.Lock()
			u.sessions[client] = session
			u.mu.Unlock()
			work.Go(func() {
				defer done()
				u.answer(client, session)
			})
		}
		// A member that refuses is for the health monitor to find.
		_, _ = session.Write(buffer[:n])
		_ = session.SetReadDeadline(time.Now().Add(state.config.clientData))
	}
}

// answer passes on what the member sends to a client.
func (u *udpFront) answer(client netip.AddrPort, session *net.UDPConn) {
	defer func() {
		u.mu.Lock()
		delete(u.sessions, client)
		u.mu.Unlock()
		session.Close()
	}()
	buffer := make([]byte, maxDatagram)
	for {
		n, err := session.Read(buffer)
		if err != nil {
			return // it is silent, refuses, or was closed
		}
		if _, err := u.conn.WriteToUDPAddrPort(buffer[:n], client); err != nil {
			return
		}
		_ = session.SetReadDeadline(time.Now().Add(u.state.Load().config.memberData))
	}
}

func (u *udpFront) closeAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, session := range u.sessions {
		session.Close()
	}
}
