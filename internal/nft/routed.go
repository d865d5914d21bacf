package nft

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	"golang.org/x/sys/unix"

	"fairlead.io/internal/lb"
	"github.com/google/nftables/expr"
)

// forward keeps here what nobody has translated of packets to Services: a client that has not
// heard that an address moved still sends to this node. It refuses the rest of what routers send
// here: an address by BGP is on no interface, so such a packet would go back to the router, and
// come again. Echo requests are refused, too: nobody but a pod could answer. (Clients take "host
// unreachable" for a fault that may pass, and wait. So that is not the answer.)
func forward() [][]expr.Any {
	var rules [][]expr.Any
	for _, f := range lb.Families {
		rules = append(rules, untranslated(f)...)
		to := rule(nfproto(f), destination(f, regKey), in(routed[f], regKey))
		rules = append(rules,
			rule(to, protocol(unix.IPPROTO_TCP), counter(), reject(unix.NFT_REJECT_TCP_RST, 0)),
			rule(to, counter(), reject(unix.NFT_REJECT_ICMPX_UNREACH, unix.NFT_REJECT_ICMPX_PORT_UNREACH)))
	}
	return rules
}

// Route says which addresses routers lead to this node, as a whole. Only differences are sent.
func (t *Table) Route(ranges []netipx.IPRange) error {
	t.state.Lock()
	defer t.state.Unlock()
	if t.stale {
		if err := t.reread(); err != nil {
			return err
		}
	}
	gone, come := without(t.routed, ranges), without(ranges, t.routed)
	if len(gone)+len(come) == 0 {
		return nil
	}
	if err := errors.Join(t.state.removeElements(intervalElements(gone)), t.state.addElements(intervalElements(come))); err != nil {
		return t.state.abandon(err)
	}
	if err := t.state.commit(); err != nil {
		t.stale = true
		return t.missing(err)
	}
	t.routed = slices.Clone(ranges)
	return nil
}

// without returns the ranges that are in all and not in others.
func without(all, others []netipx.IPRange) []netipx.IPRange {
	have := make(map[netipx.IPRange]bool, len(others))
	for _, r := range others {
		have[r] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(r netipx.IPRange) bool { return have[r] })
}

// intervalElements returns the elements of ranges: where each begins, and what comes after it.
func intervalElements(ranges []netipx.IPRange) []element {
	var out []element
	for _, r := range ranges {
		s := routed[lb.FamilyOf(r.From())]
		out = append(out, element{set: s, key: string(r.From().AsSlice())})
		if after := r.To().Next(); after.IsValid() {
			out = append(out, element{set: s, key: string(after.AsSlice()), end: true})
		}
	}
	return out
}

// intervals is the inverse of intervalElements. It says whether all elements make ranges.
func intervals(all []element) (out []netipx.IPRange, ok bool) {
	ok = true
	for _, s := range routed {
		var own []element
		for _, e := range all {
			if e.set == s {
				own = append(own, e)
			}
		}
		slices.SortFunc(own, func(x, y element) int {
			if c := strings.Compare(x.key, y.key); c != 0 || x.end == y.end {
				return c
			}
			if x.end {
				return -1
			}
			return 1
		})
		for len(own) > 0 {
			from, valid := netip.AddrFromSlice([]byte(own[0].key))
			if ok = ok && valid && !own[0].end; own[0].end || !valid {
				own = own[1:]
				continue
			}
			to := netipx.PrefixLastIP(netip.PrefixFrom(from, 0))
			if own = own[1:]; len(own) > 0 {
				if ok = ok && own[0].end; own[0].end {
					after, _ := netip.AddrFromSlice([]byte(own[0].key))
					to = after.Prev()
					own = own[1:]
				}
			}
			out = append(out, netipx.IPRangeFrom(from, to))
		}
	}
	return out, ok
}
