package cloudsigma

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Subscription to an address, or to a VLAN.
type Subscription struct {
	ID, Owner string
	Resource  string // ip or vlan
	Object    string // the address, or the VLAN's UUID
	Status    string // active, expired
	AutoRenew bool
	End       time.Time
}

// VLAN is a private network.
type VLAN struct {
	UUID, Owner, Subscription string
}

// month is the period of a subscription.
const month = 30 * 24 * time.Hour

// buy makes subscriptions, and what they are to.
func (s *Simulator) buy(q *request, f fields) (any, error) {
	resource, err := f.text("resource")
	if err != nil {
		return nil, err
	}
	if resource != "ip" && resource != "vlan" {
		return nil, invalid("resource", "Resource %q cannot be bought here", resource)
	}
	if !f.null("amount") {
		var n json.Number
		if json.Unmarshal([]byte(strings.Trim(string(f["amount"]), `"`)), &n) != nil {
			return nil, invalid("amount", "A number is expected")
		}
		if amount, err := strconv.Atoi(n.String()); err != nil || amount != 1 {
			return nil, invalid("amount", "One at a time is what is sold here")
		}
	}
	if resource == "vlan" {
		vlan := s.addVLAN(q.user.UUID)
		return subscriptionView(s.subscriptions.Get(vlan.Subscription)), nil
	}
	addr := s.free(s.options.Subscribable, true)
	if !addr.IsValid() {
		return nil, &apiError{503, "backend", "There are no free IPs", ""}
	}
	return subscriptionView(s.subscribe(q.user.UUID, addr, q.now)), nil
}

// subscribe gives a user an address, also one that he has by DHCP.
func (s *Simulator) subscribe(owner string, addr netip.Addr, now time.Time) *Subscription {
	sub := s.newSubscription(owner, "ip", addr.String(), now)
	ip := s.ips.Get(addr.String())
	if ip == nil {
		ip = &IP{Address: addr}
		s.ips.Add(addr.String(), ip)
	}
	ip.Owner, ip.Subscription = owner, sub.ID
	return sub
}

func (s *Simulator) newSubscription(owner, resource, object string, now time.Time) *Subscription {
	id := 7000
	for s.subscriptions.Get(strconv.Itoa(id)) != nil {
		id++
	}
	sub := &Subscription{ID: strconv.Itoa(id), Owner: owner, Resource: resource, Object: object, Status: "active", AutoRenew: true, End: now.Add(month)}
	s.subscriptions.Add(sub.ID, sub)
	return sub
}

func (s *Simulator) addVLAN(owner string) *VLAN {
	vlan := &VLAN{UUID: s.uuid(), Owner: owner}
	vlan.Subscription = s.newSubscription(owner, "vlan", vlan.UUID, s.Now()).ID
	s.vlans.Add(vlan.UUID, vlan)
	return vlan
}

// matches says whether a subscription passes the filters.
func (sub *Subscription) matches(q *request) bool {
	for key, is := range map[string]string{"resource": sub.Resource, "subscribed_object": sub.Object} {
		if want := q.query.Get(key); want != "" && !slices.Contains(strings.Split(want, ","), is) {
			return false
		}
	}
	switch want := q.query.Get("status"); want {
	case "", "all":
		return true
	case "notexpired":
		return sub.Status != "expired"
	default:
		return sub.Status == want
	}
}

func subscriptionView(sub *Subscription) map[string]any {
	return map[string]any{
		"id": sub.ID, "uuid": sub.ID, "resource": sub.Resource, "subscribed_object": sub.Object, "status": sub.Status, "auto_renew": sub.AutoRenew,
		"amount": "1", "period": "1 month", "end_time": sub.End.UTC().Format("2006-01-02T15:04:05.000000+00:00"),
		"resource_uri": apiPrefix + "subscriptions/" + sub.ID + "/", "discount_amount": nil, "price": "0", "remaining": "1",
	}
}

func (s *Simulator) vlanView(vlan *VLAN) map[string]any {
	servers := []any{}
	for server := range s.servers.All() {
		if slices.ContainsFunc(server.NICs, func(n NIC) bool { return n.VLAN == vlan.UUID }) {
			servers = append(servers, map[string]string{"uuid": server.UUID, "name": server.Name})
		}
	}
	return map[string]any{
		"uuid": vlan.UUID, "meta": map[string]string{}, "servers": servers, "owner": s.ownerView(vlan.Owner), "tags": s.tagsOf(vlan.UUID),
		"resource_uri": apiPrefix + "vlans/" + vlan.UUID + "/", "subscription": map[string]any{"id": json.Number(vlan.Subscription), "resource_uri": apiPrefix + "subscriptions/" + vlan.Subscription + "/"},
	}
}

// locations are a few of those that there are.
func locations() []any {
	all := []any{}
	for _, one := range [][3]string{{"ZRH", "Zurich", "zrh.cloudsigma.com"}, {"FRA", "Frankfurt", "fra.cloudsigma.com"}, {"DUB", "Dublin", "ec.servecentric.com"}} {
		all = append(all, map[string]string{"id": one[0], "display_name": one[1], "api_endpoint": "https://" + one[2] + "/api/2.0/"})
	}
	return all
}
