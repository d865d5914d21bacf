package nft

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// watcher follows the kernel's notifications about nftables. The library's own
// monitor does not tell of which table an element is.
type watcher struct {
	closing atomic.Bool
	conn    *netlink.Conn
	done    chan struct{}
}

func watch(t *Table, netns int) (*watcher, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return nil, fmt.Errorf("follow nftables: %w", err)
	}
	if err := errors.Join(c.SetReadBuffer(receiveBuffer), c.JoinGroup(unix.NFNLGRP_NFTABLES)); err != nil {
		return nil, fmt.Errorf("follow nftables: %w", errors.Join(err, c.Close()))
	}
	w := &watcher{conn: c, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.run(t)
	}()
	return w, nil
}

func (w *watcher) run(t *Table) {
	for {
		msgs, err := w.conn.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			// Notifications have been lost: look for ourselves.
			if !t.intact() {
				t.signal()
			}
		case err != nil && w.closing.Load():
			return
		case err != nil:
			t.log.Error("stopped watching nftables: changes by other programs go unnoticed", "error", err)
			return
		}
		for _, m := range msgs {
			if t.isTampering(m) {
				t.signal()
			}
		}
	}
}

func (w *watcher) stop() error {
	w.closing.Store(true)
	err := w.conn.Close()
	<-w.done
	return err
}

// isTampering says whether m is about one of our tables and not our doing.
func (t *Table) isTampering(m netlink.Message) bool {
	kind := m.Header.Type & 0xff
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || kind == unix.NFT_MSG_NEWGEN || len(m.Data) < 4 {
		return false
	}
	if m.Header.PID == t.state.port.Load() || m.Header.PID == t.fence.port.Load() {
		return false
	}
	switch nftables.TableFamily(m.Data[0]) {
	case nftables.TableFamilyARP, nftables.TableFamilyINet:
	default:
		return false
	}
	attrs, err := netlink.NewAttributeDecoder(m.Data[4:])
	if err != nil {
		return false
	}
	for attrs.Next() {
		// In messages of all kinds attribute 1 is the table's name.
		if attrs.Type() == unix.NFTA_TABLE_NAME {
			return attrs.String() == Name
		}
	}
	return false
}

func (t *Table) signal() {
	select {
	case t.tampered <- struct{}{}:
	default:
	}
}

// intact says whether the tables are as we know them.
func (t *Table) intact() bool {
	t.state.Lock()
	defer t.state.Unlock()
	found, err := t.state.read()
	if err != nil || !found.complete || t.stale || len(found.state.VIPs) != len(t.have) || !slices.Equal(found.state.Routed, t.routed) {
		return false
	}
	for a, v := range found.state.VIPs {
		if !v.equal(t.have[a]) {
			return false
		}
	}
	return true
}
