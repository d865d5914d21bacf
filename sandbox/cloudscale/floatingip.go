package cloudscale

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

func (s *Simulator) listFIPs(q *request) ([]any, error) {
	return list(q, &s.fips, func(f *FloatingIP) map[string]string { return f.Tags }, s.viewFIP)
}

func (s *Simulator) getFIP(q *request) (any, error) {
	f, err := find(&s.fips, q.id)
	if err != nil {
		return nil, err
	}
	return s.viewFIP(q, f), nil
}

func regionSlugs() []string {
	var all []string
	for _, r := range regions {
		all = append(all, r.slug)
	}
	return all
}

func (s *Simulator) createFIP(q *request) (any, error) {
	f := q.fields
	f.require("ip_version")
	ipVersion := f.number("ip_version", 4, 4, 6)
	if ipVersion == 5 {
		f.fail("ip_version", "\"5\" is not a valid choice.")
	}
	bits := 32
	if ipVersion == 6 {
		bits = 128
	}
	fip := FloatingIP{ReversePTR: f.text("reverse_ptr", ""), Tags: f.tags(nil), Created: q.now}
	length := f.number("prefix_length", bits, 1, 128)
	if length != bits && (ipVersion != 6 || length != 56) {
		f.fail("prefix_length", "Only 128 and 56 for IPv6, and 32 for IPv4, can be used.")
	}
	if f.oneOf("type", "regional", "regional", "global") == "regional" {
		fip.Region = f.text("region", "")
		if fip.Region != "" && !slices.Contains(regionSlugs(), fip.Region) {
			f.fail("region", "\""+fip.Region+"\" is not a valid choice. Choose one of: "+strings.Join(regionSlugs(), ", ")+".")
		}
	} else if f.has("region") {
		f.fail("region", "A global floating IP has no region.")
	}
	s.aim(f, &fip, f.wrong["region"] == "" && f.wrong["type"] == "")
	if err := f.err(); err != nil {
		return nil, err
	}
	if f.oneOf("type", "regional", "regional", "global") == "regional" && fip.Region == "" {
		fip.Region = regions[0].slug
	}
	prefix, ok := s.takeFloating(ipVersion, length)
	if !ok {
		return nil, detail(http.StatusBadRequest, "There are no free floating IPs.")
	}
	fip.Prefix = prefix
	s.fips.Add(prefix.Addr().String(), &fip)
	s.changedState()
	return s.viewFIP(q, &fip), nil
}

// aim points a floating IP to what the fields say. A regional one can only
// point into its region; it gets the region of its target if it has none and
// mayAdopt says so.
func (s *Simulator) aim(f *fields, fip *FloatingIP, mayAdopt bool) {
	if f.has("server") && f.has("load_balancer") && !f.null("server") && !f.null("load_balancer") {
		f.fail("load_balancer", "Either server or load_balancer can be given, not both.")
		return
	}
	var zone string
	switch {
	case f.has("server"):
		id := f.reference("server")
		server := s.servers.Get(id)
		switch {
		case f.wrong["server"] != "":
			return
		case server == nil:
			f.missing("server", "Server", id)
			return
		case !slices.ContainsFunc(server.Interfaces, func(n Interface) bool { return n.Network == "" }):
			f.fail("server", "The server has no public interface.")
			return
		}
		fip.Server, fip.LoadBalancer, zone = id, "", server.Zone
	case f.has("load_balancer"):
		id := f.reference("load_balancer")
		lb := s.lbs.Get(id)
		switch {
		case f.wrong["load_balancer"] != "":
			return
		case lb == nil:
			f.missing("load_balancer", "Load balancer", id)
			return
		case lb.private:
			f.fail("load_balancer", "A floating IP cannot be assigned to a load balancer with a private VIP address.")
			return
		}
		fip.Server, fip.LoadBalancer, zone = "", id, lb.Zone
	default:
		return
	}
	switch r := regionOf(zone); {
	case fip.Region == "" && mayAdopt && f.oneOf("type", "regional", "regional", "global") == "regional":
		fip.Region = r
	case fip.Region != "" && fip.Region != r:
		f.fail("region", "The floating IP is in the region \""+fip.Region+"\", its target in \""+r+"\".")
	}
}

// takeFloating finds a prefix that is not taken.
func (s *Simulator) takeFloating(ipVersion, length int) (netip.Prefix, bool) {
	for _, from := range s.options.FloatingIPs {
		if version(from.Addr().Is4()) != ipVersion || from.Bits() > length {
			continue
		}
		for a := from.Addr(); from.Contains(a); a = after(netip.PrefixFrom(a, length)) {
			p := netip.PrefixFrom(a, length)
			if p.Addr() != from.Addr() && !slices.ContainsFunc(slices.Collect(s.fips.All()), func(f *FloatingIP) bool { return f.Prefix.Overlaps(p) }) {
				return p, true
			}
		}
	}
	return netip.Prefix{}, false
}

// after is the first address after a prefix.
func after(p netip.Prefix) netip.Addr {
	raw := p.Masked().Addr().AsSlice()
	for i := p.Bits() - 1; i >= 0; i-- {
		raw[i/8] ^= 1 << (7 - i%8)
		if raw[i/8]&(1<<(7-i%8)) != 0 { // no carry
			a, _ := netip.AddrFromSlice(raw)
			return a
		}
	}
	return netip.Addr{}
}

func (s *Simulator) updateFIP(q *request) error {
	fip, err := find(&s.fips, q.id)
	if err != nil {
		return err
	}
	f := q.fields
	f.fixed("ip_version", "type", "region", "prefix_length", "network")
	wanted := *fip
	wanted.ReversePTR, wanted.Tags = f.text("reverse_ptr", fip.ReversePTR), f.tags(fip.Tags)
	s.aim(f, &wanted, false)
	if err := f.err(); err != nil {
		return err
	}
	*fip = wanted
	s.changedState()
	return nil
}

func (s *Simulator) removeFIP(q *request) error {
	if _, err := find(&s.fips, q.id); err != nil {
		return err
	}
	s.fips.Remove(q.id)
	s.changedState()
	return nil
}

// nextHop is the first address of the family of what a floating IP points to,
// or simply the first if it has none of that family.
func (s *Simulator) nextHop(f *FloatingIP) netip.Addr {
	var candidates []Address
	if lb := s.lbs.Get(f.LoadBalancer); lb != nil {
		candidates = lb.VIPs
	}
	if server := s.servers.Get(f.Server); server != nil {
		for _, nic := range server.Interfaces {
			if nic.Network == "" {
				candidates = append(candidates, nic.Addresses...)
			}
		}
	}
	for _, a := range candidates {
		if a.Address.Is4() == f.Prefix.Addr().Is4() {
			return a.Address
		}
	}
	if len(candidates) > 0 {
		return candidates[0].Address
	}
	return netip.Addr{}
}

// AddFloatingIP adds a floating IP with a prefix of the caller's choice.
func (s *Simulator) AddFloatingIP(f FloatingIP) FloatingIP {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Created.IsZero() {
		f.Created = s.Now()
	}
	f.Tags = maps.Clone(f.Tags)
	s.fips.Add(f.Prefix.Addr().String(), &f)
	s.changedState()
	return f
}

// FloatingIPs returns all floating IPs, oldest first.
func (s *Simulator) FloatingIPs() []FloatingIP {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []FloatingIP
	for f := range s.fips.All() {
		c := *f
		c.Tags = maps.Clone(f.Tags)
		all = append(all, c)
	}
	return all
}
