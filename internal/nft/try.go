package nft

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrThere says that our tables are there: an agent runs.
var ErrThere = errors.New("the tables are there")

// Try makes our tables and removes them, in one transaction: nobody sees them. It says
// whether this kernel can do what they need. If the tables are there, it leaves them alone
// and returns ErrThere.
func Try() error { return TryIn(0) }

// TryIn is Try in the network namespace of a file descriptor, as OpenIn is Open.
func TryIn(netns int) error {
	c, err := dial(netns)
	if err != nil {
		return err
	}
	defer func() { _ = c.CloseLasting() }()
	c.Lock()
	defer c.Unlock()
	for _, t := range tables {
		c.CreateTable(t)
	}
	if err := c.define(); err != nil {
		return err
	}
	for _, t := range tables {
		c.DelTable(t)
	}
	switch err := c.Flush(); {
	case errors.Is(err, unix.EEXIST):
		return ErrThere
	case err != nil:
		return fmt.Errorf("make nftables tables: %w", err)
	}
	return nil
}
