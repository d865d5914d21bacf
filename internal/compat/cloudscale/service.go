package cloudscale

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/internal/lb"
)

// Problem is something in a Service that cannot be understood.
type Problem struct {
	Key  string // the annotation, or the field
	Text string
}

func (p Problem) String() string { return p.Key + ": " + p.Text }

// Read returns what a Service asks for by the rules of a version, and
// everything in it that cannot be understood.
func Read(s *lb.Service, v Version) (Settings, []Problem) {
	r := reader{annotations: s.Annotations}
	out := Settings{
		IPMode:             lb.IPMode(r.oneOf(AnnotationIPMode, "Proxy", ipModes)),
		Name:               r.text(AnnotationName, DefaultName(s)),
		Flavor:             r.text(AnnotationFlavor, "lb-standard"),
		Zone:               s.Annotations[AnnotationZone],
		VIPs:               r.vips(),
		FloatingIPs:        r.floatingIPs(),
		Hostname:           s.Annotations[AnnotationForceHostname],
		PublishFloatingIPs: v >= VersionCurrent,
		NodeSelector:       r.selector(),
		AllowedSubnets:     r.list(AnnotationAllowedSubnets),
	}
	if v >= VersionCurrent && s.LoadBalancerIP != "" && !r.has(AnnotationFloatingIPs) {
		out.FloatingIPs = r.prefixes("spec.loadBalancerIP", []string{s.LoadBalancerIP})
	}
	out.Ports = r.ports(s, v)
	return out, r.problems
}

// FloatingIPs that a Service asks for, as far as they can be understood. It is
// how one Service looks at another: problems there are reported there.
func FloatingIPs(s *lb.Service) []netip.Prefix {
	r := reader{annotations: s.Annotations}
	out := r.floatingIPs()
	if len(r.problems) > 0 {
		return nil
	}
	if s.LoadBalancerIP != "" && !r.has(AnnotationFloatingIPs) && ConfigVersion(s) >= VersionCurrent {
		out = append(out, r.prefixes("", []string{s.LoadBalancerIP})...)
	}
	return out
}

// Unknown returns annotations that look like those of load balancers and are
// not: somebody may have meant one that is.
func Unknown(s *lb.Service) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(s.Annotations)) {
		known := slices.ContainsFunc(Annotations, func(a Annotation) bool { return a.Key == key })
		if strings.HasPrefix(key, prefix+"loadbalancer") && !known {
			out = append(out, key)
		}
	}
	return out
}

// reader reads annotations and notes what it cannot understand.
type reader struct {
	annotations map[string]string
	problems    []Problem
}

func (r *reader) wrong(key, format string, args ...any) {
	r.problems = append(r.problems, Problem{key, fmt.Sprintf(format, args...)})
}

func (r *reader) has(key string) bool {
	_, ok := r.annotations[key]
	return ok
}

// get returns an annotation, or the default if it is absent.
func (r *reader) get(key, absent string) string {
	if v, ok := r.annotations[key]; ok {
		return v
	}
	return absent
}

// text is a string that must not be empty.
func (r *reader) text(key, absent string) string {
	v := r.get(key, absent)
	if v == "" {
		r.wrong(key, "it is empty; remove it for the default, %s", absent)
	}
	return v
}

func (r *reader) oneOf(key, absent string, values []string) string {
	v := r.get(key, absent)
	if !slices.Contains(values, v) {
		r.wrong(key, "%q is not one of %s", v, strings.Join(values, ", "))
	}
	return v
}

func (r *reader) number(key string, absent int) int {
	v := r.get(key, strconv.Itoa(absent))
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		r.wrong(key, "%q is not a whole number of 1 or more", v)
	}
	return n
}

// list reads a JSON list of texts. Nothing is an empty list.
func (r *reader) list(key string) []string {
	v := r.get(key, "")
	if strings.Trim(v, " ") == "" {
		return nil
	}
	var out []string
	if err := json.Unmarshal([]byte(v), &out); err != nil {
		r.wrong(key, `%q is not a JSON list of strings, like ["a", "b"]: %v`, v, err)
		return nil
	}
	return out
}

// networks without the bits of a host.
func (r *reader) networks(key string) []netip.Prefix {
	return masked(r.prefixes(key, r.list(key)))
}

func masked(in []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range in {
		if p = p.Masked(); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// prefixes reads networks. An address is the network of this one address: the
// cloud does not take it otherwise.
func (r *reader) prefixes(key string, texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, addrErr := netip.ParseAddr(text)
			if addrErr != nil || a.Zone() != "" {
				r.wrong(key, "%q is neither a network like 192.0.2.0/24 nor an address", text)
				continue
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func (r *reader) vips() []VIP {
	const key = AnnotationVIPAddresses
	var raw []struct{ Subnet, Address string }
	if err := json.Unmarshal([]byte(r.get(key, "[]")), &raw); err != nil {
		r.wrong(key, `it is not a JSON list like [{"subnet": "UUID", "address": "10.0.0.9"}]: %v`, err)
		return nil
	}
	var out []VIP
	for _, v := range raw {
		vip := VIP{Subnet: v.Subnet}
		if v.Address != "" {
			var err error
			if vip.Address, err = netip.ParseAddr(v.Address); err != nil {
				r.wrong(key, "%q is not an address", v.Address)
			}
		}
		if vip.Subnet == "" && v.Address == "" {
			r.wrong(key, "an entry has neither subnet nor address")
		}
		out = append(out, vip)
	}
	return out
}

// floatingIPs are known by their addresses, whatever is behind the slash.
func (r *reader) floatingIPs() []netip.Prefix {
	return r.prefixes(AnnotationFloatingIPs, r.list(AnnotationFloatingIPs))
}

func (r *reader) selector() labels.Selector {
	const key = AnnotationNodeSelector
	s, err := labels.Parse(r.get(key, ""))
	if err != nil {
		r.wrong(key, "unable to parse selector: %v", err)
		return labels.Nothing()
	}
	return s
}
