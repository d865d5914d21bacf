package link

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Age makes our address on an interface end sooner.
func (l *Links) Age(ifname string, a netip.Addr, left time.Duration) error {
	return l.on("age", ifname, a, func(d *device) error {
		req := l.request(unix.RTM_NEWADDR, unix.NLM_F_REPLACE|unix.NLM_F_ACK)
		fill(req, d.link.Index, a, left)
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
}
