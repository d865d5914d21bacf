package kubeovn

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	api "fairlead.io/api/kubeovn"
)

// routerOptions are all that a router of kube-ovn has: whatever else somebody writes there
// is overwritten.
var routerOptions = map[string]string{"mcast_relay": "true", "always_learn_from_arp_request": "false", "dynamic_neigh_routers": "true", "mac_binding_age_threshold": "300"}

// plan returns the commands of ovn-nbctl that are needed, in their order.
func plan(w world, now rows) (do [][]string) {
	add := func(args ...string) { do = append(do, args) }
	const mark = "external_ids:vendor=" + vendor
	ports := map[string]bool{} // of routers
	for _, s := range w.subnets {
		if now.named("Logical_Switch", s.Name) != nil {
			continue
		}
		add("ls-add", s.Name)
		add("set", "Logical_Switch", s.Name, mark)
		if !overlay(s) {
			name := "localnet." + s.Name
			add("lsp-add", s.Name, name)
			add("lsp-set-type", name, "localnet")
			add("lsp-set-addresses", name, "unknown")
			add("lsp-set-options", name, "network_name="+s.Spec.Vlan)
		}
	}
	slices.SortFunc(w.vpcs, byName)
	for _, v := range w.vpcs {
		name := v.Metadata.Name
		router := now.named("Logical_Router", name)
		if router == nil {
			add("lr-add", name)
			add("set", "Logical_Router", name, mark)
			router = &row{}
		}
		if !maps.Equal(router.maps["options"], routerOptions) {
			add(append([]string{"clear", "Logical_Router", name, "options", "--", "set", "Logical_Router", name}, prefixed("options:", routerOptions)...)...)
		}
		for _, s := range w.subnets {
			if s.Spec.Vpc == name && overlay(s) {
				port := name + "-" + s.Name
				ports[port] = true
				connect(add, now, name, s, port, mac(port), networks(s, s.Spec.Gateway))
			}
		}
		for _, external := range v.external() {
			eip, s := w.gateway(v, external), w.subnet(external)
			if eip == nil || s == nil {
				continue
			}
			ports[eip.Name] = true
			connect(add, now, name, *s, eip.Name, eip.Status.MACAddress, networks(*s, eip.Status.V4IP, eip.Status.V6IP))
			if now.named("Logical_Router_Port", eip.Name) == nil {
				for i, chassis := range w.chassis {
					add("lrp-set-gateway-chassis", eip.Name, chassis, fmt.Sprint(100-i))
				}
			}
		}
		if len(router.uuid) == 0 {
			for _, r := range v.Spec.StaticRoutes {
				add("--may-exist", "lr-route-add", name, r.CIDR, r.NextHopIP)
			}
		}
		policies(add, now, *router, v)
		translations(add, now, *router, name, w.rules)
	}
	balancers(add, now, w)
	for _, p := range now["Logical_Router_Port"] {
		if p.ours() && !ports[p.name] {
			add("--if-exists", "lsp-del", p.maps["external_ids"]["peer"])
			add("--if-exists", "lrp-del", p.name)
		}
	}
	for _, r := range now["Logical_Router"] {
		if r.ours() && !slices.ContainsFunc(w.vpcs, func(v vpc) bool { return v.Metadata.Name == r.name }) {
			add("--if-exists", "lr-del", r.name)
		}
	}
	for _, s := range now["Logical_Switch"] {
		if s.ours() && w.subnet(s.name) == nil {
			add("--if-exists", "ls-del", s.name)
		}
	}
	return do
}

// connect makes a router's port in a subnet and its peer, which kube-ovn names the other
// way round.
func connect(add func(...string), now rows, router string, s api.Subnet, port, mac string, networks []string) {
	if now.named("Logical_Router_Port", port) != nil || len(networks) == 0 {
		return
	}
	peer := s.Name + "-" + router
	add(append([]string{"lrp-add", router, port, mac}, networks...)...)
	add("set", "Logical_Router_Port", port, "external_ids:vendor="+vendor, "external_ids:peer="+peer)
	add("--may-exist", "lsp-add", s.Name, peer)
	add("lsp-set-type", peer, "router")
	add("lsp-set-addresses", peer, "router")
	add("lsp-set-options", peer, "router-port="+port)
}

// policies makes those of a router what the Vpc says. Others go, but for those that
// kube-ovn itself makes of something else.
func policies(add func(...string), now rows, router row, v vpc) {
	there := map[policyRoute]bool{}
	for _, p := range now["Logical_Router_Policy"] {
		if !slices.Contains(router.sets["policies"], p.uuid) {
			continue
		}
		is := policyRoute{Match: p.text["match"], Action: p.text["action"], NextHopIP: strings.Join(p.sets["nexthops"], ",")}
		_, _ = fmt.Sscan(p.text["priority"], &is.Priority)
		ids := p.maps["external_ids"]
		switch {
		case slices.Contains(v.Spec.PolicyRoutes, is):
			there[is] = true
		case ids["subnet"] == "" && ids["vpc-egress-gateway"] == "" && ids["isU2ORoutePolicy"] == "":
			add("remove", "Logical_Router", v.Metadata.Name, "policies", p.uuid)
		}
	}
	for i, p := range v.Spec.PolicyRoutes {
		if there[p] {
			continue
		}
		id := fmt.Sprintf("@policy-%s-%d", v.Metadata.Name, i)
		create := []string{"--id=" + id, "create", "Logical_Router_Policy", fmt.Sprintf("priority=%d", p.Priority), fmt.Sprintf("match=%q", p.Match), "action=" + p.Action, "external_ids:vendor=" + vendor}
		if p.NextHopIP != "" {
			create = append(create, fmt.Sprintf("nexthops=%q", p.NextHopIP))
		}
		add(create...)
		add("add", "Logical_Router", v.Metadata.Name, "policies", id)
	}
}

// prefixed returns pairs of a column's keys and values.
func prefixed(column string, m map[string]string) (out []string) {
	for _, pair := range sorted(m) {
		out = append(out, column+pair)
	}
	return out
}
