package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Change is what happened to a connection.
type Change struct {
	// Conn goes on from now on, or still does.
	Conn Conn
	// Opening: only the client's acknowledgement is missing.
	Opening bool
	// Gone: it does not any more.
	Gone bool
	// Lost: Conn is not valid, and changes may be missing. List tells how things are.
	Lost bool
}

// receiveBuffer is for the changes of all connections of the node, also of those that nobody
// asked for: about 10,000 of them. It is smaller in tests.
var receiveBuffer = 8 << 20

const (
	// pause is for how long changes are collected, so that many are told at once, and batch
	// is how many.
	pause = 20 * time.Millisecond
	batch = 512
)

// Watch calls changes with what happens to connections to addresses for which of is true,
// until ctx ends, and then returns nil. It tells of those that List would return.
//
// The first call, as soon as nothing is missed any more, has a change with Lost, and so has
// one after messages were lost. There is also something that is never told: by default
// (net.netfilter.nf_conntrack_events is 2), the kernel reports only what becomes of connections
// that were opened while somebody listened. Whoever wants to know when older ones end lists
// now and then.
func Watch(ctx context.Context, of func(netip.Addr) bool, changes func([]Change)) error {
	return WatchIn(ctx, 0, of, changes)
}

// WatchIn is Watch in the network namespace of a file descriptor, as ListIn is List.
func WatchIn(ctx context.Context, netns int, of func(netip.Addr) bool, changes func([]Change)) error {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return fmt.Errorf("follow connection tracking: %w", err)
	}
	err = c.SetReadBuffer(receiveBuffer)
	for _, group := range []uint32{unix.NFNLGRP_CONNTRACK_NEW, unix.NFNLGRP_CONNTRACK_UPDATE, unix.NFNLGRP_CONNTRACK_DESTROY} {
		err = errors.Join(err, c.JoinGroup(group))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("follow connection tracking: %w", err), c.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		if stop() {
			_ = c.Close()
		}
	}()
	changes([]Change{{Lost: true}})
	for {
		some, err := collect(c, of)
		if ctx.Err() != nil {
			return nil
		}
		if len(some) > 0 {
			changes(some)
		}
		if err != nil {
			return fmt.Errorf("follow connection tracking: %w", err)
		}
	}
}

// change is what an entry means for those who are told.
func (e entry) change() (c Change, ok bool) {
	switch {
	case e.goesOn():
		return Change{Conn: e.Conn, Opening: e.opening()}, true
	case e.ended():
		return Change{Conn: e.Conn, Gone: true}, true
	}
	return Change{}, false
}

// collect waits for a change, and takes those that follow it soon.
func collect(c *netlink.Conn, of func(netip.Addr) bool) (some []Change, err error) {
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	for len(some) < batch {
		first := len(some) == 0
		msgs, err := c.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			some = append(some, Change{Lost: true})
		case errors.Is(err, os.ErrDeadlineExceeded):
			return some, nil
		case err != nil:
			return some, err
		}
		for _, m := range msgs {
			e, ok := decode(uint16(m.Header.Type), m.Data, of)
			if !ok {
				continue
			}
			if change, told := e.change(); told {
				some = append(some, change)
			}
		}
		if first && len(some) > 0 {
			if err := c.SetReadDeadline(time.Now().Add(pause)); err != nil {
				return some, err
			}
		}
	}
	return some, nil
}
