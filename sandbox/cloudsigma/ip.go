package cloudsigma

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
)

// IP is an address that an account has: by a subscription, or because one of its
// servers got it by DHCP.
type IP struct {
	// Idle addresses are listed although they are neither subscribed nor on a server,
	// which hardly ever happens.
	Idle         bool
	Address      netip.Addr
	Owner        string
	Subscription string // ID; empty: none
	Meta         map[string]string
}

// ownIP finds an address that the user sees.
func (s *Simulator) ownIP(q *request, id string) (*IP, error) {
	ip := s.ips.Get(id)
	switch {
	case ip == nil:
		return nil, notExist(id)
	case !s.sees(q.user, ip):
		return nil, denied(q.user, "LIST", id)
	}
	return ip, nil
}

// sees says whether an address is in the list of a user's: subscribed, or on one
// of his servers.
func (s *Simulator) sees(u *User, ip *IP) bool {
	return ip.Owner == u.UUID && (ip.Subscription != "" || ip.Idle || s.holder(ip.Address) != nil)
}

// holder is the server that has an address by a static card or DHCP.
func (s *Simulator) holder(addr netip.Addr) *Server {
	for server := range s.servers.All() {
		if server.has(addr) {
			return server
		}
	}
	return nil
}

// updateIP sets what can be set.
func (s *Simulator) updateIP(q *request, f fields) (any, error) {
	ip, err := s.ownIP(q, q.id)
	if err != nil {
		return nil, err
	}
	if ip.Meta, err = f.meta(); err != nil {
		return nil, err
	}
	return s.ipView(ip, true), nil
}

func ipRef(a netip.Addr) map[string]string {
	return map[string]string{"uuid": a.String(), "resource_uri": apiPrefix + "ips/" + a.String() + "/"}
}

func (s *Simulator) ipView(ip *IP, detail bool) map[string]any {
	v := map[string]any{
		"uuid": ip.Address.String(), "owner": s.ownerView(ip.Owner), "resource_uri": apiPrefix + "ips/" + ip.Address.String() + "/", "server": nil,
	}
	if holder := s.holder(ip.Address); holder != nil {
		v["server"] = map[string]string{"uuid": holder.UUID, "name": holder.Name, "resource_uri": apiPrefix + "servers/" + holder.UUID + "/"}
	}
	if !detail {
		return v
	}
	prefix := s.prefixOf(ip.Address)
	v["gateway"], v["netmask"], v["nameservers"] = prefix.Masked().Addr().Next().String(), prefix.Bits(), []string{}
	v["grantees"], v["permissions"], v["tags"], v["meta"], v["subscription"] = []any{}, []any{}, s.tagsOf(ip.Address.String()), ip.Meta, nil
	if ip.Meta == nil {
		v["meta"] = map[string]string{}
	}
	if ip.Subscription != "" {
		number, _ := strconv.Atoi(ip.Subscription) // a number here, a text in subscriptions
		v["subscription"] = map[string]any{"id": json.Number(strconv.Itoa(number)), "resource_uri": apiPrefix + "subscriptions/" + ip.Subscription + "/"}
	}
	return v
}

func (s *Simulator) prefixOf(a netip.Addr) netip.Prefix {
	for _, p := range slices.Concat(s.options.Dynamic, s.options.Subscribable) {
		if p.Contains(a) {
			return p
		}
	}
	bits := 24
	if a.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(a, bits)
}

// lease gives a card an address by DHCP: the one that it had last, if that is free.
func (s *Simulator) lease(server *Server, card string, is4 bool) netip.Addr {
	addr := server.leased[card]
	if !addr.IsValid() || s.ips.Get(addr.String()) != nil {
		addr = s.free(s.options.Dynamic, is4)
	}
	if addr.IsValid() {
		s.ips.Add(addr.String(), &IP{Address: addr, Owner: server.Owner})
	}
	return addr
}

// free is the lowest address that nobody has. The first two of a prefix are its
// own and the gateway's.
func (s *Simulator) free(prefixes []netip.Prefix, is4 bool) netip.Addr {
	for _, p := range prefixes {
		if p.Addr().Is4() != is4 {
			continue
		}
		for a := p.Masked().Addr().Next().Next(); p.Contains(a.Next()); a = a.Next() {
			if s.ips.Get(a.String()) == nil {
				return a
			}
		}
	}
	return netip.Addr{}
}

// giveBack forgets addresses that nobody subscribes to and no server has.
func (s *Simulator) giveBack() {
	for _, ip := range s.ips.Where(func(ip *IP) bool { return ip.Subscription == "" && !ip.Idle && s.holder(ip.Address) == nil }) {
		s.ips.Remove(ip.Address.String())
		for tag := range s.tags.All() {
			tag.Resources = slices.DeleteFunc(slices.Clone(tag.Resources), func(r string) bool { return r == ip.Address.String() })
		}
	}
}
