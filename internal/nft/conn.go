package nft

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// A transaction is one sendmsg, which must fit into the socket's buffer. This
	// is a limit, not memory taken: a full table of 10,000 Services is 2 MB.
	sendBuffer = 64 << 20
	// Notifications of a proxy that rewrites its table come in thousands.
	receiveBuffer = 8 << 20
	// All elements of one message are in one attribute of at most 64 KiB; an
	// element with the longest key takes 60 bytes.
	chunk = 500
)

// conn is a netlink socket for transactions. Its lock is held from the first
// command of a transaction to the kernel's answer.
type conn struct {
	sync.Mutex
	*nftables.Conn
	netns int
	// port is the socket's netlink address, which the kernel puts into the
	// notifications of what the socket did: by that we know our own writes.
	port atomic.Uint32
}

func dial(netns int) (*conn, error) {
	c := &conn{netns: netns}
	return c, c.redial()
}

func (c *conn) redial() error {
	if c.Conn != nil {
		_ = c.CloseLasting()
	}
	options := []nftables.ConnOption{nftables.AsLasting(), nftables.WithSockOptions(c.configure)}
	if c.netns != 0 {
		options = append(options, nftables.WithNetNSFd(c.netns))
	}
	fresh, err := nftables.New(options...)
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	c.Conn = fresh
	return nil
}

func (c *conn) configure(n *netlink.Conn) error {
	c.port.Store(n.PID())
	return errors.Join(n.SetWriteBuffer(sendBuffer), n.SetReadBuffer(receiveBuffer))
}

// commit sends the transaction. Unless the kernel has said no to a part of it,
// nobody knows what is still to come on the socket after an error, so there is
// a new one then.
func (c *conn) commit() error {
	err := c.Flush()
	if err == nil || errors.Is(err, unix.ENOENT) {
		return err
	}
	return errors.Join(err, c.redial())
}

// abandon forgets the transaction.
func (c *conn) abandon(err error) error {
	return errors.Join(err, c.redial())
}

// addElements and removeElements add to the transaction. Keys of one set are
// sent together, in the order they have.
func (c *conn) addElements(all []element) error {
	return each(all, c.SetAddElements)
}

func (c *conn) removeElements(all []element) error {
	return each(all, c.SetDeleteElements)
}

func each(all []element, do func(*nftables.Set, []nftables.SetElement) error) error {
	keys := map[*set][]element{}
	for _, e := range all {
		keys[e.set] = append(keys[e.set], e)
	}
	for _, s := range sets {
		n := s.nft()
		for rest := keys[s]; len(rest) > 0; {
			part := rest[:min(chunk, len(rest))]
			rest = rest[len(part):]
			elems := setElements(part)
			for i := range elems {
				elems[i].Timeout = n.Timeout
			}
			if err := do(n, elems); err != nil {
				return fmt.Errorf("elements of %s: %w", s.name, err)
			}
		}
	}
	return nil
}

// define adds tables, sets, chains and rules to the transaction. What is there
// already is left alone, except the rules, which are replaced.
func (c *conn) define() error {
	for _, t := range tables {
		c.AddTable(t)
	}
	for _, s := range sets {
		if err := c.AddSet(s.nft(), nil); err != nil {
			return fmt.Errorf("set %s: %w", s.name, err)
		}
	}
	all := chains()
	for i := range all {
		c.AddChain(&all[i].Chain)
		c.FlushChain(&all[i].Chain)
	}
	for i := range all {
		for _, exprs := range all[i].rules {
			c.AddRule(&nftables.Rule{Table: all[i].Table, Chain: &all[i].Chain, Exprs: exprs})
		}
	}
	return nil
}

// undefine adds the removal of our tables to the transaction; it does not fail
// where there are none.
func (c *conn) undefine() {
	for _, t := range tables {
		c.AddTable(t)
		c.DelTable(t)
	}
}
