package cloudscale

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

func (s *Simulator) listLBs(q *request) ([]any, error) {
	return list(q, &s.lbs, func(lb *LoadBalancer) map[string]string { return lb.Tags }, s.viewLB)
}

func (s *Simulator) getLB(q *request) (any, error) {
	lb, err := find(&s.lbs, q.id)
	if err != nil {
		return nil, err
	}
	return s.viewLB(q, lb), nil
}

func (s *Simulator) createLB(q *request) (any, error) {
	f := q.fields
	f.require("name", "flavor")
	lb := &LoadBalancer{Name: f.text("name", ""), Zone: f.text("zone", zones[0]), Flavor: f.text("flavor", ""), Tags: f.tags(nil)}
	if f.wrong["flavor"] == "" && lbFlavors[lb.Flavor] == "" {
		f.fail("flavor", "\""+lb.Flavor+"\" is not a valid choice.")
	}
	if !slices.Contains(zones, lb.Zone) {
		f.fail("zone", "\""+lb.Zone+"\" is not a valid choice. Choose one of: "+strings.Join(zones, ", ")+".")
	}
	wanted := s.wantedVIP(f, lb)
	if err := f.err(); err != nil {
		return nil, err
	}
	if wanted == nil {
		for subnet := range s.publicSubs.All() {
			if subnet.Network != s.publicNets[lb.Zone].UUID {
				continue
			}
			a, ok := s.take(subnet)
			if !ok {
				return nil, detail(http.StatusBadRequest, "There are no free addresses in %s.", subnet.CIDR)
			}
			lb.VIPs = append(lb.VIPs, Address{a, subnet.UUID})
		}
	} else {
		lb.private, lb.VIPs = true, []Address{*wanted}
	}
	lb.UUID, lb.Created = s.uuid(), q.now
	lb.built = q.now.Add(max(s.options.Creating, q.slow, 0))
	lb.busyUntil = lb.built
	s.lbs.Add(lb.UUID, lb)
	s.changedState()
	return s.viewLB(q, lb), nil
}

// wantedVIP returns nil for a load balancer with public addresses. There may
// be one address in a private subnet.
func (s *Simulator) wantedVIP(f *fields, lb *LoadBalancer) *Address {
	wanted, _ := f.objects("vip_addresses")
	if len(wanted) == 0 {
		return nil
	}
	if len(wanted) > 1 {
		f.fail("vip_addresses", "Only one VIP address can be specified.")
		return nil
	}
	inner := wanted[0]
	defer func() { f.take("vip_addresses", inner) }()
	inner.require("subnet")
	id := inner.reference("subnet")
	address := inner.address("address")
	if inner.err() != nil {
		return nil
	}
	subnet := s.subnets.Get(id)
	switch {
	case subnet == nil:
		inner.missing("subnet", "Subnet", id)
	case s.zoneOf(subnet) != lb.Zone:
		inner.fail("subnet", "The subnet is not in the zone \""+lb.Zone+"\".")
	case address.IsValid() && !usable(subnet, address):
		inner.fail("address", address.String()+" is not a valid IP for the specified subnet.")
	case address.IsValid() && s.inUse(subnet, address):
		inner.fail("address", address.String()+" is already in use.")
	case address.IsValid():
		return &Address{address, id}
	default:
		if taken, ok := s.take(subnet); ok {
			return &Address{taken, id}
		}
		inner.fail("subnet", "The subnet has no free address.")
	}
	return nil
}

func (s *Simulator) updateLB(q *request) error {
	lb, err := find(&s.lbs, q.id)
	if err != nil {
		return err
	}
	f := q.fields
	f.fixed("flavor", "zone", "vip_addresses")
	name, tags := f.text("name", lb.Name), f.tags(lb.Tags)
	if err := f.err(); err != nil {
		return err
	}
	if err := lb.free(q.now); err != nil {
		return err
	}
	lb.Name, lb.Tags = name, tags
	s.touched(q, lb)
	return nil
}

func (s *Simulator) removeLB(q *request) error {
	lb, err := find(&s.lbs, q.id)
	if err != nil {
		return err
	}
	if err := lb.free(q.now); err != nil {
		return err
	}
	s.dropLB(lb)
	return nil
}

// dropLB removes a load balancer with all that belongs to it. Floating IPs
// stay, and lead nowhere.
func (s *Simulator) dropLB(lb *LoadBalancer) {
	for _, l := range s.listeners.In(lb.UUID) {
		s.listeners.Remove(l.UUID)
	}
	for _, pool := range s.poolsOf(lb.UUID) {
		s.dropPool(pool)
	}
	for _, f := range s.fips.Where(func(f *FloatingIP) bool { return f.LoadBalancer == lb.UUID }) {
		f.LoadBalancer = ""
	}
	s.lbs.Remove(lb.UUID)
	s.changedState()
}

// LoadBalancers returns all load balancers, oldest first.
func (s *Simulator) LoadBalancers() []LoadBalancer {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	var all []LoadBalancer
	for lb := range s.lbs.All() {
		c := *lb
		c.Status, c.VIPs, c.Tags = s.status(lb, now), slices.Clone(lb.VIPs), maps.Clone(lb.Tags)
		all = append(all, c)
	}
	return all
}
