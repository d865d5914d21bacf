package kubevip

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// ipv4 is the family of addresses that Services share.
var ipv4 = lb.IPv4

// shareKey is that of all Services that share in the way of kube-vip. The pool
// says with which others, and may change; existing sharing stays.
const shareKey = "kube-vip"

// amend adds to r what s asks for in this dialect, and what the ConfigMap says of
// its namespace.
func (c *Config) amend(r *lb.Request, s *lb.Service) {
	if r.ShareKey == "" {
		r.ShareKey, r.ShareAmong, r.ShareOnly = shareKey, "pool "+c.PoolKey(s.Key.Namespace), &ipv4
		r.Alone = !c.shares(s.Key.Namespace)
	}
	noteLeases(r, s)
	if !r.Reallocate {
		given := leased(s)
		for _, f := range lb.Families {
			r.DHCP[f] = r.DHCP[f] || given[f]
		}
	}
	text, inSpec := Requested(s)
	if text == "" {
		return
	}
	w := requested{where: "Annotation " + AnnotationAddresses}
	if inSpec {
		w.where = "spec.loadBalancerIP"
	}
	w.read(text)
	if len(r.Addresses) > 0 {
		w.compare(r.Addresses)
	} else {
		r.Voice, r.Addresses, r.Anywhere = Name, w.addresses, !c.strict
		for _, f := range lb.Families {
			r.DHCP[f] = r.DHCP[f] || w.dhcp[f]
		}
	}
	w.match(r)
	if w.reason != nil && r.Invalid == nil {
		r.Invalid = w.reason
	}
}

// stay lets a Service whose address is of a ConfigMap that is gone stay there with
// those that it shares it with.
func stay(r *lb.Request) {
	if r.ShareKey == "" {
		r.ShareKey, r.ShareAmong, r.ShareOnly, r.Alone = shareKey, "pool ", &ipv4, true
	}
}

// narrow limits r to the families of which s names an address, or a DHCP server's,
// in its annotation: where kube-vip announces that is all that s has, whatever
// else it could have.
func narrow(r *lb.Request, s *lb.Service) {
	text, inSpec := Requested(s)
	if text == "" || inSpec {
		return
	}
	named := slices.DeleteFunc(slices.Clone(r.Families), func(f lb.Family) bool {
		return !r.DHCP[f] && !slices.ContainsFunc(r.Addresses, func(a netip.Addr) bool { return lb.FamilyOf(a) == f })
	})
	if len(named) > 0 {
		r.Families = named
	}
}

// noteLeases adds what is noted of s: the families of which a DHCP server gives it an
// address, and what it was given. Everybody can write that.
func noteLeases(r *lb.Request, s *lb.Service) {
	noted := strings.Split(s.Annotations[native.AnnotationDHCP], ",")
	for _, f := range lb.Families {
		if !slices.Contains(noted, f.String()) {
			continue
		}
		r.DHCP[f] = !r.Reallocate
		for _, x := range s.Published() {
			if lb.FamilyOf(x) == f {
				r.Leased = append(r.Leased, x)
				break
			}
		}
	}
}

// leased has the families of which s was given no address, but 0.0.0.0 or :: for
// one from a DHCP server.
func leased(s *lb.Service) (out [len(lb.Families)]bool) {
	given := Given(s)
	if given != annotated(s) {
		return out
	}
	for _, field := range strings.SplitN(given, ",", most) {
		if a, err := lb.ParseAddr(field); err == nil && a.IsUnspecified() {
			out[lb.FamilyOf(a)] = true
		}
	}
	return out
}

// requested is what a Service asks for, as far as it can be understood.
type requested struct {
	where     string
	addresses []netip.Addr
	dhcp      [len(lb.Families)]bool
	reason    *lb.Reason // what is wrong with it
}

func (w *requested) wrong(r lb.Reason) {
	if w.reason == nil {
		w.reason = &r
	}
}

func (w *requested) read(text string) {
	if n := strings.Count(text, ",") + 1; n > most {
		w.wrong(lb.InvalidRequest.With(fmt.Sprintf("%s has %d entries; at most one address per IP family is allowed", w.where, n)))
		return
	}
	var wrong []string
	for field := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(field) == "" {
			continue
		}
		a, err := lb.ParseAddr(field)
		switch {
		case err != nil:
			wrong = append(wrong, w.where+": "+err.Error())
		case a.IsUnspecified():
			w.dhcp[lb.FamilyOf(a)] = true
		case unusable(a) != "":
			wrong = append(wrong, fmt.Sprintf("%s: %s is a %s address, which a Service cannot use", w.where, a, unusable(a)))
		case !slices.Contains(w.addresses, a):
			w.addresses = append(w.addresses, a)
		}
	}
	for _, a := range w.addresses {
		if w.dhcp[lb.FamilyOf(a)] {
			wrong = append(wrong, fmt.Sprintf("%s requests both %s and an address from DHCP; request one of them per IP family", w.where, a))
		}
	}
	if len(wrong) == 0 && len(w.addresses) == 0 && w.dhcp == [len(lb.Families)]bool{} {
		wrong = append(wrong, w.where+" has no address")
	}
	if len(wrong) > 0 {
		w.wrong(lb.InvalidRequest.With(strings.Join(wrong, "; ")))
	}
}

func unusable(a netip.Addr) string { return lb.Unusable(netipx.IPRangeFrom(a, a), lb.LinkLocal) }

// compare notes if somebody asks for other addresses in other words: nobody could
// tell what is meant.
func (w *requested) compare(others []netip.Addr) {
	same := len(w.addresses) == len(others) && w.dhcp == [len(lb.Families)]bool{}
	for _, a := range others {
		same = same && slices.Contains(w.addresses, a)
	}
	if !same {
		w.wrong(lb.InvalidRequest.With(fmt.Sprintf("%s does not request %s, but another annotation does; remove one of them", w.where, prose.Addrs(others))))
	}
}

// match notes if an address, or that of a DHCP server, is of a family that the
// Service has not.
func (w *requested) match(r *lb.Request) {
	families := r.Families
	if r.Policy == lb.SingleStack && len(families) > 1 {
		families = families[:1]
	}
	all := slices.Clone(w.addresses)
	for _, f := range lb.Families {
		if w.dhcp[f] {
			all = append(all, dhcp[f].Addr())
		}
	}
	if slices.ContainsFunc(all, func(a netip.Addr) bool { return !slices.Contains(families, lb.FamilyOf(a)) }) {
		w.wrong(lb.FamilyMismatch.With(prose.Commas(all), prose.Addrs(families)))
	}
}
