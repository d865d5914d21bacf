package carrying

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"

	"fairlead.io/internal/wire"
)

// lan is the LAN of this node's interfaces. A port is opened when somebody is first asked there.
type lan struct {
	log   *slog.Logger
	mu    sync.Mutex
	ports map[string]*wire.Port
	done  bool
}

// NewLAN returns the one of this node.
func NewLAN(log *slog.Logger) LAN { return &lan{log: log, ports: map[string]*wire.Port{}} }

// Ask is as LAN.Ask.
func (l *lan) Ask(ctx context.Context, iface string, addr, from netip.Addr, at net.HardwareAddr) net.HardwareAddr {
	p := l.port(iface)
	if p == nil {
		return nil
	}
	mac, err := p.Reach(ctx, wire.Question{Addr: addr, From: from}, at, askTime)
	if err != nil && ctx.Err() == nil {
		l.log.Debug("neighbour not asked", "interface", iface, "address", addr, "error", err)
		l.drop(iface, p) // it may be another one under the same name
	}
	return mac
}

func (l *lan) port(iface string) *wire.Port {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.ports[iface]; p != nil || l.done {
		return p
	}
	p, err := wire.Open(iface)
	if err != nil {
		l.log.Debug("interface not opened", "interface", iface, "error", err)
		return nil
	}
	l.ports[iface] = p
	return p
}

func (l *lan) drop(iface string, p *wire.Port) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ports[iface] == p {
		delete(l.ports, iface)
		_ = p.Close()
	}
}

// Close closes all ports.
func (l *lan) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = true
	for name, p := range l.ports {
		delete(l.ports, name)
		_ = p.Close()
	}
}
