package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// receiveBuffer is for notifications; renewing a thousand addresses makes a
// thousand of them.
const receiveBuffer = 4 << 20

// Links are the interfaces of this node as they are now.
type Links struct {
	events *nl.NetlinkSocket
	ask    map[int]*nl.SocketHandle
	// routes is for what may take long, so that nothing else waits for it.
	routes map[int]*nl.SocketHandle

	changed chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	devices map[int]*device // by index
	err     error           // why events have ended
}

// Watch reads the interfaces and follows them until ctx ends.
func Watch(ctx context.Context) (*Links, error) {
	return WatchIn(ctx, netns.None())
}

// WatchIn is Watch in another network namespace than the calling thread's;
// entering it takes CAP_SYS_ADMIN.
func WatchIn(ctx context.Context, ns netns.NsHandle) (*Links, error) {
	events, err := nl.SubscribeAt(ns, netns.None(), unix.NETLINK_ROUTE,
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return nil, fmt.Errorf("follow interfaces: %w", err)
	}
	ask, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		events.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	routes, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		events.Close()
		ask.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	l := &Links{
		events:  events,
		ask:     map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: ask}},
		routes:  map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: routes}},
		changed: make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	err = events.SetReceiveBufferSize(receiveBuffer, true)
	if err == nil {
		err = l.reload()
	}
	if err != nil {
		events.Close()
		ask.Close()
		routes.Close()
		return nil, err
	}
	stop := context.AfterFunc(ctx, events.Close)
	go func() {
		defer close(l.done)
		defer ask.Close()
		defer routes.Close()
		defer stop()
		l.follow(ctx)
	}()
	return l, nil
}

// Done is closed when interfaces are no longer followed; Err says why.
func (l *Links) Done() <-chan struct{} { return l.done }

// Err is nil until Done, and after it if the context has ended.
func (l *Links) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Changed is sent to after something that List or Ours tell has changed, other
// than by Add and Remove.
func (l *Links) Changed() <-chan struct{} { return l.changed }

// List returns the interfaces in the order of their names.
func (l *Links) List() []Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Link, 0, len(l.devices))
	for _, d := range l.devices {
		out = append(out, d.view())
	}
	slices.SortFunc(out, func(a, b Link) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Ours returns the addresses that have our mark, those of an earlier agent
// included, in order.
func (l *Links) Ours() []Address {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ours(l.devices)
}

func ours(devices map[int]*device) []Address {
	var out []Address
	for _, d := range devices {
		for a := range d.ours {
			out = append(out, Address{d.link.Name, a})
		}
	}
	slices.SortFunc(out, func(a, b Address) int {
		if c := strings.Compare(a.Interface, b.Interface); c != 0 {
			return c
		}
		return a.Addr.Compare(b.Addr)
	})
	return out
}

func (l *Links) request(kind, flags int) *nl.NetlinkRequest {
	return &nl.NetlinkRequest{
		NlMsghdr: unix.NlMsghdr{
			Len:   unix.SizeofNlMsghdr,
			Type:  uint16(kind),
			Flags: unix.NLM_F_REQUEST | uint16(flags),
		},
		Sockets: l.ask,
	}
}

// dump asks for all objects of a kind, again if they change meanwhile.
func (l *Links) dump(get, reply int, header nl.NetlinkRequestData) ([][]byte, error) {
	return l.dumpFrom(l.ask, get, reply, header)
}

func (l *Links) dumpFrom(sockets map[int]*nl.SocketHandle, get, reply int, header nl.NetlinkRequestData) ([][]byte, error) {
	for {
		req := l.request(get, unix.NLM_F_DUMP)
		req.Sockets = sockets
		req.AddData(header)
		msgs, err := req.Execute(unix.NETLINK_ROUTE, uint16(reply))
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return msgs, err
		}
	}
}

// reload reads everything.
func (l *Links) reload() error {
	devices := map[int]*device{}
	links, err := l.dump(unix.RTM_GETLINK, unix.RTM_NEWLINK, nl.NewIfInfomsg(unix.AF_UNSPEC))
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	for _, m := range links {
		link, err := parseLink(m)
		if err != nil {
			return fmt.Errorf("read interface: %w", err)
		}
		devices[link.Index] = newDevice(link)
	}
	if err := l.readAddresses(devices); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	same := maps.EqualFunc(l.devices, devices, func(a, b *device) bool { return a.view().equal(b.view()) })
	if !same || !slices.Equal(ours(l.devices), ours(devices)) {
		l.signal()
	}
	l.devices = devices
	return nil
}

// readAddresses notes all addresses of devices.
func (l *Links) readAddresses(devices map[int]*device) error {
	addrs, err := l.dump(unix.RTM_GETADDR, unix.RTM_NEWADDR, nl.NewIfAddrmsg(unix.AF_UNSPEC))
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, m := range addrs {
		index, a, err := parseAddress(m)
		if err != nil {
			return err
		}
		if d := devices[index]; d != nil {
			d.put(a)
		}
	}
	return nil
}

func (l *Links) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *Links) follow(ctx context.Context) {
	for {
		msgs, _, err := l.events.Receive()
		if errors.Is(err, unix.ENOBUFS) {
			err = l.reload() // notifications have been lost
		}
		if err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			if ctx.Err() == nil {
				l.err = fmt.Errorf("follow interfaces: %w", err)
				l.events.Close()
			}
			return
		}
		for _, m := range msgs {
			l.handle(m)
		}
	}
}

// handle takes over what one notification says.
func (l *Links) handle(m syscall.NetlinkMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		// Of family AF_BRIDGE they are about ports of a bridge: the end of one is
		// not the end of the interface.
		if nl.DeserializeIfInfomsg(m.Data).Family == unix.AF_UNSPEC {
			err = l.handleLink(m)
		}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		err = l.handleAddress(m)
	}
	if err != nil {
		l.signal() // whatever it was, the caller had better look
	}
}

func (l *Links) handleLink(m syscall.NetlinkMessage) error {
	link, err := parseLink(m.Data)
	if err != nil {
		return err
	}
	d := l.devices[link.Index]
	switch {
	case m.Header.Type == unix.RTM_DELLINK:
		delete(l.devices, link.Index)
		if d != nil {
			l.signal()
		}
	case d == nil:
		l.devices[link.Index] = newDevice(link)
		l.signal()
	case !d.link.equal(link):
		d.link = link
		l.signal()
	}
	return nil
}

func (l *Links) handleAddress(m syscall.NetlinkMessage) error {
	index, a, err := parseAddress(m.Data)
	if err != nil {
		return err
	}
	d := l.devices[index]
	if d == nil {
		return nil
	}
	var news bool
	if m.Header.Type == unix.RTM_DELADDR {
		news = d.drop(a.prefix)
	} else {
		news = d.put(a)
	}
	if news {
		l.signal()
	}
	return nil
}
