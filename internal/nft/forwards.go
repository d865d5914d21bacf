package nft

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"fairlead.io/internal/lb"
)

// Forwards returns to which of these addresses kube-proxy's rules on this node forward, whatever
// its mode: for one of the address's ports at least, because it writes those of a Service
// together. Known is false if the kernel has no rules of kube-proxy that could be read.
func Forwards(addrs map[netip.Addr][]lb.Port) (forwarded map[netip.Addr]bool, known bool) {
	forwarded = map[netip.Addr]bool{}
	for _, read := range []func(map[netip.Addr][]lb.Port, map[netip.Addr]bool) bool{inServiceMaps, inServiceChains, inLegacyRules, inIPVS} {
		known = read(addrs, forwarded) || known
	}
	return forwarded, known
}

const (
	tableOfKubeProxy = "kube-proxy"
	// serviceMap of mode nftables has what is forwarded, by address, protocol and port. A
	// Service that no pod serves is in another one.
	serviceMap = "service-ips"
)

// inServiceMaps looks into the maps of mode nftables, for single elements: there may be
// thousands.
func inServiceMaps(addrs map[netip.Addr][]lb.Port, forwarded map[netip.Addr]bool) (known bool) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	var has [len(lb.Families)]bool
	for _, f := range lb.Families {
		has[f] = ask(c, unix.NFT_MSG_GETSET, f, func(e *netlink.AttributeEncoder) {
			e.String(unix.NFTA_SET_TABLE, tableOfKubeProxy)
			e.String(unix.NFTA_SET_NAME, serviceMap)
		})
		known = known || has[f]
	}
	for addr, ports := range addrs {
		f := lb.FamilyOf(addr)
		forwarded[addr] = forwarded[addr] || has[f] && slices.ContainsFunc(ports, func(p lb.Port) bool {
			return ask(c, unix.NFT_MSG_GETSETELEM, f, func(e *netlink.AttributeEncoder) {
				e.String(unix.NFTA_SET_ELEM_LIST_TABLE, tableOfKubeProxy)
				e.String(unix.NFTA_SET_ELEM_LIST_SET, serviceMap)
				e.Nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func(e *netlink.AttributeEncoder) error {
					e.Nested(unix.NFTA_LIST_ELEM, func(e *netlink.AttributeEncoder) error {
						e.Nested(unix.NFTA_SET_ELEM_KEY, func(e *netlink.AttributeEncoder) error {
							e.Bytes(unix.NFTA_DATA_VALUE, serviceKey(addr, p))
							return nil
						})
						return nil
					})
					return nil
				})
			})
		})
	}
	return known
}

// serviceKey is how the map has a port of an address: each part takes whole words.
func serviceKey(addr netip.Addr, p lb.Port) []byte {
	key := append(addr.AsSlice(), protocols[p.Protocol], 0, 0, 0)
	return append(binary.BigEndian.AppendUint16(key, p.Number), 0, 0)
}

// ask says whether nftables has what it is asked for.
func ask(c *netlink.Conn, message int, f lb.Family, about func(*netlink.AttributeEncoder)) bool {
	e := netlink.NewAttributeEncoder()
	e.ByteOrder = binary.BigEndian
	about(e)
	attributes, err := e.Encode()
	if err != nil {
		return false
	}
	family := byte(nftables.TableFamilyIPv4)
	if f == lb.IPv6 {
		family = byte(nftables.TableFamilyIPv6)
	}
	answers, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | message), Flags: netlink.Request},
		Data:   append([]byte{family, unix.NFNETLINK_V0, 0, 0}, attributes...),
	})

	return err == nil && len(answers) > 0
}

// inServiceChains looks into the chains of mode iptables, where iptables writes nftables.
func inServiceChains(addrs map[netip.Addr][]lb.Port, forwarded map[netip.Addr]bool) (known bool) {
	c, err := nftables.New()
	if err != nil {
		return false
	}
	for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6} {
		t := &nftables.Table{Name: "nat", Family: family}
		chain, err := c.ListChain(t, chainOfKubeProxy)
		if err != nil || chain == nil {
			continue
		}
		rules, err := c.GetRules(t, chain)
		if err != nil {
			continue
		}
		known = true
		for _, r := range rules {
			if addr, ok := matchedAddr(r.Exprs); ok {
				if _, asked := addrs[addr]; asked {
					forwarded[addr] = true
				}
			}
		}
	}
	return known
}

// matchedAddr is the one destination that a rule is about.
func matchedAddr(exprs []expr.Any) (netip.Addr, bool) {
	for i, e := range exprs[:max(len(exprs)-1, 0)] {
		load, ok := e.(*expr.Payload)
		if !ok || load.Base != expr.PayloadBaseNetworkHeader || !(load.Offset == 16 && load.Len == 4 || load.Offset == 24 && load.Len == 16) {
			continue
		}
		if c, ok := exprs[i+1].(*expr.Cmp); ok && c.Op == expr.CmpOpEq {
			return netip.AddrFromSlice(c.Data)
		}
	}
	return netip.Addr{}, false
}

// inLegacyRules looks into the table of mode iptables, where iptables writes its own.
func inLegacyRules(addrs map[netip.Addr][]lb.Port, forwarded map[netip.Addr]bool) (known bool) {
	for _, f := range legacyFamilies {
		dump := f.nat()
		if !bytes.Contains(dump, []byte(chainOfKubeProxy+"\x00")) {
			continue
		}
		known = true
		for addr := range legacyDestinations(dump, f.length) {
			if _, asked := addrs[addr]; asked {
				forwarded[addr] = true
			}
		}
	}
	return known
}

// legacyDestinations are the single addresses that rules of a dump are about, which has
// addresses of that length. An entry begins with source, destination and their masks.
func legacyDestinations(dump []byte, length int) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	// Of struct ipt_entry and ip6t_entry: where the offset of the next entry is.
	next := 90
	if length == 16 {
		next = 142
	}
	for rest := dump; len(rest) > next+2; {
		if mask := rest[3*length : 4*length]; !slices.ContainsFunc(mask, func(b byte) bool { return b != 0xff }) {
			if addr, ok := netip.AddrFromSlice(rest[length : 2*length]); ok {
				out[addr] = true
			}
		}
		size := int(binary.NativeEndian.Uint16(rest[next:]))
		if size <= next || size > len(rest) {
			break
		}
		rest = rest[size:]
	}
	return out
}

// inIPVS looks into the list of virtual servers of mode ipvs.
func inIPVS(addrs map[netip.Addr][]lb.Port, forwarded map[netip.Addr]bool) (known bool) {
	file, err := os.Open("/proc/thread-self/net/ip_vs")
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	served := virtualServers(file)
	for addr := range addrs {
		forwarded[addr] = forwarded[addr] || served[addr]
	}
	return len(served) > 0
}

// virtualServers are the addresses that have a server behind them.
func virtualServers(list io.Reader) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	var of netip.Addr
	for lines := bufio.NewScanner(list); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		if words[0] == "->" {
			if of.IsValid() {
				out[of] = true
			}
			continue
		}
		of = netip.Addr{}
		if six, ok := strings.CutPrefix(words[1], "["); ok {
			six, _, _ = strings.Cut(six, "]")
			of, _ = netip.ParseAddr(six)
		} else if four, _, ok := strings.Cut(words[1], ":"); ok {
			if b, err := hex.DecodeString(four); err == nil {
				of, _ = netip.AddrFromSlice(b)
			}
		}
	}
	return out
}
