package link

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"fairlead.io/internal/lb"
)

// inward are interfaces of pods, which are never the node's primary one.
var inward = regexp.MustCompile(`^(cilium|lxc|veth)`)

// Primary returns the interface that carries addresses of family f if nobody names
// one: that with the node's default route of the family, or of any; otherwise the
// first by index that leads outside. It is "" if there is none.
func Primary(f lb.Family, links []Link) string {
	leads := func(l *Link) bool {
		return !l.Loopback && !l.Slave && len(l.MAC) == 6 && !inward.MatchString(l.Name)
	}
	rank := func(l *Link) int {
		switch {
		case l.Default[f]:
			return 0
		case l.Default[lb.IPv4] || l.Default[lb.IPv6]:
			return 1
		}
		return 2
	}
	var best *Link
	for i := range links {
		l := &links[i]
		if leads(l) && (best == nil || rank(l) < rank(best) || rank(l) == rank(best) && l.Index < best.Index) {
			best = l
		}
	}
	if best == nil {
		return ""
	}
	return best.Name
}

// Has says whether the interface has an address that is not from us.
func (l *Link) Has(a netip.Addr) bool {
	return slices.ContainsFunc(l.Prefixes, func(p netip.Prefix) bool { return p.Addr() == a })
}

// defaultRoutes are the indexes of the interfaces with the default routes, by family;
// 0 is none. Of several routes, the one counts that the kernel uses.
type defaultRoutes [len(lb.Families)]int

// readRoutes reads the default routes.
func (l *Links) readRoutes() (defaultRoutes, error) {
	var out defaultRoutes
	msgs, err := l.dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, nl.NewRtMsg())
	if err != nil {
		return out, fmt.Errorf("list routes: %w", err)
	}
	var metrics [len(lb.Families)]uint32
	for _, m := range msgs {
		r, ok := parseDefault(m)
		if ok && r.index != 0 && (out[r.family] == 0 || r.metric < metrics[r.family]) {
			out[r.family], metrics[r.family] = r.index, r.metric
		}
	}
	return out, nil
}

// route is a default route.
type route struct {
	family lb.Family
	index  int // of the interface
	metric uint32
}

// parseDefault reads a message about a route, if it is a default route that is used
// for packets of no particular source.
func parseDefault(m []byte) (route, bool) {
	if len(m) < unix.SizeofRtMsg {
		return route{}, false
	}
	msg := nl.DeserializeRtMsg(m)
	r := route{}
	switch msg.Family {
	case unix.AF_INET:
		r.family = lb.IPv4
	case unix.AF_INET6:
		r.family = lb.IPv6
	default:
		return route{}, false
	}
	if msg.Dst_len != 0 || msg.Src_len != 0 || msg.Type != unix.RTN_UNICAST || msg.Flags&unix.RTM_F_CLONED != 0 {
		return route{}, false
	}
	attrs, err := nl.ParseRouteAttr(m[msg.Len():])
	if err != nil {
		return route{}, false
	}
	table := uint32(msg.Table)
	for _, a := range attrs {
		switch {
		case a.Attr.Type == unix.RTA_MULTIPATH && len(a.Value) >= unix.SizeofRtNexthop && r.index == 0:
			r.index = int(int32(binary.NativeEndian.Uint32(a.Value[4:]))) // the first of several
		case len(a.Value) < 4:
		case a.Attr.Type == unix.RTA_OIF:
			r.index = int(binary.NativeEndian.Uint32(a.Value))
		case a.Attr.Type == unix.RTA_PRIORITY:
			r.metric = binary.NativeEndian.Uint32(a.Value)
		case a.Attr.Type == unix.RTA_TABLE:
			table = binary.NativeEndian.Uint32(a.Value)
		}
	}
	return r, table == unix.RT_TABLE_MAIN
}

// handleRoute reads the default routes again if one has changed.
func (l *Links) handleRoute(m []byte) error {
	if _, ok := parseDefault(m); !ok {
		return nil
	}
	now, err := l.readRoutes()
	if err != nil {
		return err
	}
	if now != l.defaults {
		l.defaults = now
		l.signal()
	}
	return nil
}

// list returns the interfaces as users see them, in no order.
func list(devices map[int]*device, routes defaultRoutes) []Link {
	out := make([]Link, 0, len(devices))
	for index, d := range devices {
		v := d.view()
		for _, f := range lb.Families {
			v.Default[f] = routes[f] == index
		}
		out = append(out, v)
	}
	return out
}
