package cloudscale

import (
	"maps"
	"time"
)

// The objects as the API shows them.

type stub struct {
	Href string `json:"href"`
	UUID string `json:"uuid"`
	Name string `json:"name"`
}

type serverStub struct {
	Href string `json:"href"`
	UUID string `json:"uuid"`
}

type subnetStub struct {
	Href string `json:"href"`
	UUID string `json:"uuid"`
	CIDR string `json:"cidr"`
}

type slug struct {
	Slug string `json:"slug"`
}

type namedSlug struct {
	Slug string `json:"slug"`
	Name string `json:"name"`
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// labels are never null.
func labels(tags map[string]string) map[string]string {
	if tags == nil {
		return map[string]string{}
	}
	return maps.Clone(tags)
}

func (q *request) lbStub(s *Simulator, id string) *stub {
	lb := s.lbs.Get(id)
	if lb == nil {
		return nil
	}
	return &stub{q.base + "load-balancers/" + id, id, lb.Name}
}

func (q *request) poolStub(s *Simulator, id string) *stub {
	pool := s.pools.Get(id)
	if pool == nil {
		return nil
	}
	return &stub{q.base + "load-balancers/pools/" + id, id, pool.Name}
}

func (q *request) subnetStub(s *Simulator, id string) *subnetStub {
	subnet := s.subnet(id)
	if subnet == nil {
		return nil
	}
	return &subnetStub{q.base + "subnets/" + id, id, subnet.CIDR.String()}
}

func version(is4 bool) int {
	if is4 {
		return 4
	}
	return 6
}

type vipView struct {
	Version int         `json:"version"`
	Address string      `json:"address"`
	Subnet  *subnetStub `json:"subnet"`
}

type lbView struct {
	Href    string            `json:"href"`
	UUID    string            `json:"uuid"`
	Name    string            `json:"name"`
	Created string            `json:"created_at"`
	Status  string            `json:"status"`
	Zone    slug              `json:"zone"`
	Flavor  namedSlug         `json:"flavor"`
	VIPs    []vipView         `json:"vip_addresses"`
	Tags    map[string]string `json:"tags"`
}

func (s *Simulator) viewLB(q *request, lb *LoadBalancer) any {
	v := lbView{
		Href: q.base + "load-balancers/" + lb.UUID, UUID: lb.UUID, Name: lb.Name, Created: stamp(lb.Created),
		Status: s.status(lb, q.now), Zone: slug{lb.Zone}, Flavor: namedSlug{lb.Flavor, lbFlavors[lb.Flavor]},
		VIPs: []vipView{}, Tags: labels(lb.Tags),
	}
	for _, a := range lb.VIPs {
		v.VIPs = append(v.VIPs, vipView{version(a.Address.Is4()), a.Address.String(), q.subnetStub(s, a.Subnet)})
	}
	return v
}

type poolView struct {
	Href         string            `json:"href"`
	UUID         string            `json:"uuid"`
	Name         string            `json:"name"`
	Created      string            `json:"created_at"`
	LoadBalancer *stub             `json:"load_balancer"`
	Algorithm    string            `json:"algorithm"`
	Protocol     string            `json:"protocol"`
	Tags         map[string]string `json:"tags"`
}

func (s *Simulator) viewPool(q *request, p *Pool) any {
	return poolView{
		q.base + "load-balancers/pools/" + p.UUID, p.UUID, p.Name, stamp(p.Created),
		q.lbStub(s, p.LoadBalancer), p.Algorithm, p.Protocol, labels(p.Tags),
	}
}

type memberView struct {
	Href          string            `json:"href"`
	UUID          string            `json:"uuid"`
	Name          string            `json:"name"`
	Enabled       bool              `json:"enabled"`
	Created       string            `json:"created_at"`
	Pool          *stub             `json:"pool"`
	LoadBalancer  *stub             `json:"load_balancer"`
	ProtocolPort  int               `json:"protocol_port"`
	MonitorPort   *int              `json:"monitor_port"`
	Address       string            `json:"address"`
	Subnet        *subnetStub       `json:"subnet"`
	MonitorStatus string            `json:"monitor_status"`
	Tags          map[string]string `json:"tags"`
}

func (s *Simulator) viewMember(q *request, m *Member) any {
	v := memberView{
		Href: q.base + "load-balancers/pools/" + m.Pool + "/members/" + m.UUID, UUID: m.UUID, Name: m.Name,
		Enabled: m.Enabled, Created: stamp(m.Created), Pool: q.poolStub(s, m.Pool), ProtocolPort: m.ProtocolPort,
		Address: m.Address.String(), Subnet: q.subnetStub(s, m.Subnet),
		MonitorStatus: s.monitorStatus(m, q.now), Tags: labels(m.Tags),
	}
	if m.MonitorPort != 0 {
		port := m.MonitorPort
		v.MonitorPort = &port
	}
	if pool := s.pools.Get(m.Pool); pool != nil {
		v.LoadBalancer = q.lbStub(s, pool.LoadBalancer)
	}
	return v
}

type listenerView struct {
	Href                   string            `json:"href"`
	UUID                   string            `json:"uuid"`
	Name                   string            `json:"name"`
	Created                string            `json:"created_at"`
	Pool                   *stub             `json:"pool"`
	LoadBalancer           *stub             `json:"load_balancer"`
	Protocol               string            `json:"protocol"`
	ProtocolPort           int               `json:"protocol_port"`
	AllowedCIDRs           []string          `json:"allowed_cidrs"`
	TimeoutClientDataMS    int               `json:"timeout_client_data_ms"`
	TimeoutMemberConnectMS int               `json:"timeout_member_connect_ms"`
	TimeoutMemberDataMS    int               `json:"timeout_member_data_ms"`
	Tags                   map[string]string `json:"tags"`
}

func (s *Simulator) viewListener(q *request, l *Listener) any {
	cidrs := []string{}
	for _, p := range l.AllowedCIDRs {
		cidrs = append(cidrs, p.String())
	}
	return listenerView{
		q.base + "load-balancers/listeners/" + l.UUID, l.UUID, l.Name, stamp(l.Created),
		q.poolStub(s, l.Pool), q.lbStub(s, l.LoadBalancer), l.Protocol, l.ProtocolPort, cidrs,
		l.TimeoutClientDataMS, l.TimeoutMemberConnectMS, l.TimeoutMemberDataMS, labels(l.Tags),
	}
}

type monitorView struct {
	Href          string            `json:"href"`
	UUID          string            `json:"uuid"`
	Created       string            `json:"created_at"`
	Pool          *stub             `json:"pool"`
	LoadBalancer  *stub             `json:"load_balancer"`
	DelayS        int               `json:"delay_s"`
	TimeoutS      int               `json:"timeout_s"`
	UpThreshold   int               `json:"up_threshold"`
	DownThreshold int               `json:"down_threshold"`
	Type          string            `json:"type"`
	HTTP          *HTTPCheck        `json:"http"`
	Tags          map[string]string `json:"tags"`
}

func (s *Simulator) viewMonitor(q *request, m *HealthMonitor) any {
	v := monitorView{
		Href: q.base + "load-balancers/health-monitors/" + m.UUID, UUID: m.UUID, Created: stamp(m.Created),
		Pool: q.poolStub(s, m.Pool), DelayS: m.DelayS, TimeoutS: m.TimeoutS, UpThreshold: m.UpThreshold,
		DownThreshold: m.DownThreshold, Type: m.Type, HTTP: m.HTTP.clone(), Tags: labels(m.Tags),
	}
	if pool := s.pools.Get(m.Pool); pool != nil {
		v.LoadBalancer = q.lbStub(s, pool.LoadBalancer)
	}
	return v
}

type fipView struct {
	Href         string            `json:"href"`
	Network      string            `json:"network"`
	IPVersion    int               `json:"ip_version"`
	NextHop      *string           `json:"next_hop"`
	Server       *serverStub       `json:"server"`
	LoadBalancer *stub             `json:"load_balancer"`
	Type         string            `json:"type"`
	Region       *slug             `json:"region"`
	ReversePTR   *string           `json:"reverse_ptr"`
	Created      string            `json:"created_at"`
	Tags         map[string]string `json:"tags"`
}

func (s *Simulator) viewFIP(q *request, f *FloatingIP) any {
	v := fipView{
		Href: q.base + "floating-ips/" + f.Prefix.Addr().String(), Network: f.Prefix.String(),
		IPVersion: version(f.Prefix.Addr().Is4()), LoadBalancer: q.lbStub(s, f.LoadBalancer),
		Type: "global", Created: stamp(f.Created), Tags: labels(f.Tags),
	}
	if f.Region != "" {
		v.Type, v.Region = "regional", &slug{f.Region}
	}
	if f.ReversePTR != "" {
		ptr := f.ReversePTR
		v.ReversePTR = &ptr
	}
	if server := s.servers.Get(f.Server); server != nil {
		v.Server = &serverStub{q.base + "servers/" + server.UUID, server.UUID}
	}
	if hop := s.nextHop(f); hop.IsValid() {
		text := hop.String()
		v.NextHop = &text
	}
	return v
}
