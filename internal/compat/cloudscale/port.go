package cloudscale

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"fairlead.io/internal/lb"
)

// ports reads the Service's ports, each with all that the load balancer has for
// it. Most of that is the same for all of them.
func (r *reader) ports(s *lb.Service, v Version) []Port {
	common := Port{
		Algorithm:       r.oneOf(AnnotationPoolAlgorithm, "round_robin", algorithms),
		PoolProtocol:    r.oneOf(AnnotationPoolProtocol, "tcp", poolProtocols),
		Protocol:        r.oneOf(AnnotationListenerProtocol, "tcp", listenerProtocols),
		AllowedCIDRs:    r.networks(AnnotationAllowedCIDRs),
		ClientDataMS:    r.number(AnnotationTimeoutClientData, 50000),
		MemberConnectMS: r.number(AnnotationTimeoutMemberConnect, 5000),
		MemberDataMS:    r.number(AnnotationTimeoutMemberData, 50000),
		Monitor:         r.monitor(),
	}
	if v >= VersionCurrent {
		if s.Affinity > 0 && !r.has(AnnotationPoolAlgorithm) {
			common.Algorithm = "source_ip"
		}
		if !r.has(AnnotationAllowedCIDRs) {
			common.AllowedCIDRs = r.sourceRanges(s)
		}
	}
	h, local := r.http(), s.Local
	switch {
	case local:
		common.Monitor.Type = "http"
		common.Monitor.HTTP = r.local(h)
	case usesHTTP(common.Monitor.Type):
		common.Monitor.HTTP = r.checked(h)
	}
	var out []Port
	for _, p := range s.Ports {
		port := common
		field := fmt.Sprintf("port %d", p.Number)
		switch p.Protocol {
		case "TCP":
		case "UDP":
			port.Protocol, port.PoolProtocol = "udp", "udp"
		default:
			r.wrong(field, "cannot use %s, only TCP and UDP are supported", p.Protocol)
			continue
		}
		if p.NodePort == 0 {
			r.wrong(field, "it has no node port for the load balancer to send traffic to; set allocateLoadBalancerNodePorts: true")
			continue
		}
		port.Pool = poolName(p.Protocol, p.Name)
		port.Number, port.NodePort, port.MonitorPort = int(p.Number), int(p.NodePort), int(p.NodePort)
		port.Listener = fmt.Sprintf("%s/%d", strings.ToLower(port.Protocol), port.Number)
		if local && s.HealthCheckNodePort != 0 {
			port.MonitorPort = int(s.HealthCheckNodePort)
		}
		if v >= VersionCurrent && !local {
			port.Monitor = r.fitting(port.Monitor, p, s.Ports)
		}
		out = append(out, port)
	}
	return out
}

func (r *reader) sourceRanges(s *lb.Service) []netip.Prefix {
	var texts []string
	for _, t := range s.SourceRanges {
		texts = append(texts, strings.TrimSpace(t))
	}
	return masked(r.prefixes("spec.loadBalancerSourceRanges", texts))
}

// monitor reads how members are checked.
func (r *reader) monitor() Monitor {
	m := Monitor{
		Type:          r.oneOf(AnnotationMonitorType, "tcp", monitorTypes),
		DelayS:        r.number(AnnotationMonitorDelay, 2),
		TimeoutS:      r.number(AnnotationMonitorTimeout, 1),
		UpThreshold:   r.number(AnnotationMonitorUpThreshold, 2),
		DownThreshold: r.number(AnnotationMonitorDownThreshold, 3),
	}
	return m
}

// local is what is asked with externalTrafficPolicy Local: kube-proxy answers at
// the health check's node port whether the node has ready pods.
func (r *reader) local(h HTTP) *HTTP {
	if h.empty() {
		return &HTTP{ExpectedCodes: []string{"200"}, Method: "GET", URLPath: "/livez", Version: "1.0"}
	}
	return r.checked(h)
}

// fitting is m for one port. A port whose protocol cannot be checked in this way
// is checked by its own, unless the other protocol has the same node port: then
// the one tells about the other.
func (r *reader) fitting(m Monitor, p lb.FrontendPort, all []lb.FrontendPort) Monitor {
	twin := slices.ContainsFunc(all, func(o lb.FrontendPort) bool {
		return o.NodePort == p.NodePort && o.Protocol != p.Protocol
	})
	udp := p.Protocol == "UDP"
	switch {
	case twin, udp == (m.Type == "udp-connect"), m.Type == "ping":
	case udp:
		m.Type, m.HTTP = "udp-connect", nil
	default:
		m.Type = "tcp"
	}
	if m.Type == "udp-connect" {
		// The cloud takes no less.
		if !r.has(AnnotationMonitorDelay) {
			m.DelayS = 3
		}
		if !r.has(AnnotationMonitorTimeout) {
			m.TimeoutS = 2
		}
	}
	return m
}

// http reads what a monitor asks for.
func (r *reader) http() HTTP {
	var h HTTP
	if err := json.Unmarshal([]byte(r.get(AnnotationMonitorHTTP, "{}")), &h); err != nil {
		r.wrong(AnnotationMonitorHTTP, `it is not a JSON object like {"url_path": "/healthz"}: %v`, err)
		return HTTP{}
	}
	return h
}

// checked is h with the defaults for what is not said, after a look at it.
func (r *reader) checked(h HTTP) *HTTP {
	const key = AnnotationMonitorHTTP
	f := h.filled()
	if !slices.Contains(httpMethods, f.Method) {
		r.wrong(key, "method %q is not one of %s", f.Method, strings.Join(httpMethods, ", "))
	}
	if !slices.Contains(httpVersions, f.Version) {
		r.wrong(key, "version %q is not one of %s", f.Version, strings.Join(httpVersions, ", "))
	}
	if f.Version == "1.0" && f.Host != nil {
		r.wrong(key, "host cannot be used with version 1.0")
	}
	if !strings.HasPrefix(f.URLPath, "/") {
		r.wrong(key, "url_path %q does not begin with /", f.URLPath)
	}
	return f
}

func (h HTTP) empty() bool {
	return len(h.ExpectedCodes) == 0 && h.Method == "" && h.URLPath == "" && h.Version == "" && h.Host == nil
}

// filled is h with the defaults for what is not said.
func (h HTTP) filled() *HTTP {
	if len(h.ExpectedCodes) == 0 {
		h.ExpectedCodes = []string{"200"}
	}
	h.Method = cmp.Or(h.Method, "GET")
	h.URLPath = cmp.Or(h.URLPath, "/")
	h.Version = cmp.Or(h.Version, "1.1")
	return &h
}
