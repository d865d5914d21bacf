package kubevip

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// dhcp are the entries that stand for an address from a DHCP server.
var dhcp = [len(lb.Families)]netip.Prefix{netip.MustParsePrefix("0.0.0.0/32"), netip.MustParsePrefix("::/128")}

// value is what the value of a key cidr- or range- says: a list of CIDRs or, if
// there is no slash in it, of ranges, whichever of the two the key is.
type value struct {
	spans  []netipx.IPRange
	ends   []netip.Addr // among spans, but not handed out
	leased [len(lb.Families)]bool
	local  bool // an entry has link-local addresses only, so that is what is wanted
	wrong  []string
}

// fault is one text about all that is wrong, or "". Of very much it has the
// beginning.
func (v *value) fault() string { return prose.Clauses(v.wrong) }

func (v *value) note(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

func readValue(text string, keepEnds bool) (v value) {
	if text == "" {
		v.note("it is empty; write CIDRs such as 192.0.2.0/24 or ranges such as 192.0.2.1-192.0.2.9")
		return v
	}
	byCIDR := strings.Contains(text, "/")
	var all [len(lb.Families)][]netipx.IPRange
	for entry := range strings.SplitSeq(text, ",") {
		if span, ok := v.entry(strings.TrimSpace(entry), byCIDR); ok {
			f := lb.FamilyOf(span.From())
			all[f] = append(all[f], span)
		}
	}
	var set netipx.IPSetBuilder
	for _, f := range lb.Families {
		if byCIDR && v.stands(f, all[f]) {
			continue
		}
		for _, span := range all[f] {
			if kind := lb.Unusable(span, lb.LinkLocal); kind != "" {
				v.note("%s has %s addresses, which a Service cannot use", lb.SpanString(span), kind)
				continue
			}
			v.local = v.local || slices.ContainsFunc(lb.LinkLocals(), func(p netip.Prefix) bool { return p.Contains(span.From()) && p.Contains(span.To()) })
			set.AddRange(span)
		}
	}
	merged, err := set.IPSet()
	if err != nil { // of valid ranges there is always a set
		v.note("%v", err)
		return v
	}
	v.spans = merged.Ranges()
	if byCIDR && !keepEnds {
		for _, p := range merged.Prefixes() {
			if span := netipx.RangeOfPrefix(p); p.Addr().Is4() && p.Bits() <= 30 {
				v.ends = append(v.ends, span.From(), span.To())
			}
		}
	}
	if len(v.wrong) == 0 && v.leased == [len(lb.Families)]bool{} && v.bare() {
		v.note("all its addresses end in .0 or .255, which are never handed out")
	}
	return v
}

// entry reads one entry of a list of CIDRs, or of ranges.
func (v *value) entry(entry string, byCIDR bool) (span netipx.IPRange, ok bool) {
	switch {
	case entry == "":
		v.note("an entry is empty; remove a comma")
		return span, false
	case byCIDR && !strings.Contains(entry, "/"):
		v.note("%s is not a CIDR such as 192.0.2.0/24, like the other entries", prose.Quote(entry))
		return span, false
	case !byCIDR && !strings.Contains(entry, "-"):
		v.note("%s is neither a range such as 192.0.2.1-192.0.2.9 nor a CIDR such as 192.0.2.0/24", prose.Quote(entry))
		return span, false
	}
	const most = 100 // no entry is longer, and errors repeat it
	if len(entry) > most {
		v.note("%s is neither a CIDR nor a range", prose.Quote(entry))
		return span, false
	}
	span, err := lb.ParseSpan(entry)
	switch {
	case err == nil:
	case strings.Contains(err.Error(), entry):
		v.note("%v", err)
		return span, false
	default:
		v.note("%s: %v", prose.Quote(entry), err)
		return span, false
	}
	return span, true
}

// stands notes that a DHCP server gives the addresses of family f, if the entries
// of that family say so.
func (v *value) stands(f lb.Family, entries []netipx.IPRange) bool {
	server, others := false, false
	for _, span := range entries {
		if span == netipx.RangeOfPrefix(dhcp[f]) {
			server = true
		} else {
			others = true
		}
	}
	if server && others {
		v.note("%s means DHCP, and cannot be combined with other %s addresses", dhcp[f], f)
	}
	v.leased[f] = server && !others
	return server
}

// bare says whether no address is left to hand out.
func (v *value) bare() bool {
	for _, span := range v.spans {
		if span.From().Is6() {
			return false
		}
		for a := span.From(); a.IsValid() && !span.To().Less(a); a = a.Next() {
			if last := a.As4()[3]; last != 0 && last != 255 {
				return false
			}
		}
	}
	return true
}
