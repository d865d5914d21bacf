package cloudscale

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	monitorTypes = []string{"ping", "tcp", "http", "https", "tls-hello", "udp-connect"}
	// udpMonitorTypes are those of pools of protocol udp, as in Octavia.
	udpMonitorTypes = []string{"udp-connect", "tcp", "http"}
	httpMethods     = []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}

	httpCode  = regexp.MustCompile(`^[1-5][0-9][0-9]$`)
	httpRange = regexp.MustCompile(`^([1-5][0-9][0-9])-([1-5][0-9][0-9])$`)
)

// udpConnectDelay is the least delay of checks by UDP, as in Octavia.
const udpConnectDelay = 3

func (s *Simulator) listMonitors(q *request) ([]any, error) {
	return list(q, &s.monitors, func(m *HealthMonitor) map[string]string { return m.Tags }, s.viewMonitor)
}

func (s *Simulator) getMonitor(q *request) (any, error) {
	m, err := find(&s.monitors, q.id)
	if err != nil {
		return nil, err
	}
	return s.viewMonitor(q, m), nil
}

func (s *Simulator) createMonitor(q *request) (any, error) {
	f := q.fields
	f.require("pool", "type")
	m := &HealthMonitor{
		Pool: f.reference("pool"), Type: f.oneOf("type", "", monitorTypes...), Created: q.now,
		DelayS: 2, TimeoutS: 1, UpThreshold: 2, DownThreshold: 3,
	}
	if m.Type == "udp-connect" {
		m.DelayS = udpConnectDelay
	}
	if checksHTTP(m.Type) {
		m.HTTP = &HTTPCheck{ExpectedCodes: []string{"200"}, Method: "GET", URLPath: "/", Version: "1.1"}
		if inner := f.object("http"); inner != nil {
			m.HTTP.Version = inner.oneOf("version", "1.1", "1.1", "1.0")
			f.take("http", inner)
		}
	}
	lb := ""
	switch pool := s.pools.Get(m.Pool); {
	case pool == nil:
		f.missing("pool", "Pool", m.Pool)
	case s.monitorOf(m.Pool) != nil:
		f.fail("pool", "This pool already has a health monitor.") // assumed
	case pool.Protocol == "udp" && m.Type != "" && !slices.Contains(udpMonitorTypes, m.Type):
		f.fail("type", "Expect one of: "+strings.Join(udpMonitorTypes, ", ")+" for a pool of protocol udp.")
	case pool.Protocol != "udp" && m.Type == "udp-connect":
		f.fail("type", "udp-connect needs a pool of protocol udp.")
	default:
		lb = pool.LoadBalancer
	}
	wanted := wantedMonitor(f, m)
	if err := s.change(q, lb, func() {
		*m = wanted
		m.UUID = s.uuid()
		s.recheckPool(q, m.Pool)
		s.monitors.Add(m.UUID, m)
	}); err != nil {
		return nil, err
	}
	return s.viewMonitor(q, m), nil
}

func checksHTTP(monitorType string) bool { return monitorType == "http" || monitorType == "https" }

func (s *Simulator) updateMonitor(q *request) error {
	m, err := find(&s.monitors, q.id)
	if err != nil {
		return err
	}
	q.fields.fixed("pool", "type")
	if inner := q.fields.object("http"); inner != nil {
		inner.fixed("version")
		q.fields.take("http", inner)
	}
	wanted := wantedMonitor(q.fields, m)
	return s.change(q, s.lbOf(m.Pool), func() {
		s.recheckPool(q, m.Pool)
		*m = wanted
	})
}

// wantedMonitor is a monitor with the fields of a request, which are checked.
// What a request says of http is merged into what is there.
func wantedMonitor(f *fields, m *HealthMonitor) HealthMonitor {
	w := *m
	w.Tags = f.tags(m.Tags)
	w.DelayS = f.number("delay_s", m.DelayS, 1, 3600)
	w.TimeoutS = f.number("timeout_s", m.TimeoutS, 1, 3600)
	w.UpThreshold = f.number("up_threshold", m.UpThreshold, 1, 10)
	w.DownThreshold = f.number("down_threshold", m.DownThreshold, 1, 10)
	if m.Type == "udp-connect" && w.DelayS < udpConnectDelay {
		f.fail("delay_s", fmt.Sprintf("Ensure this value is greater than or equal to %d.", udpConnectDelay))
	}
	inner := f.object("http")
	switch {
	case inner == nil:
		return w
	case m.HTTP == nil:
		if len(inner.values) > 0 { // who sends {} with every monitor means nothing by it
			f.fail("http", "This field can only be used with the types http and https.")
		}
		return w
	}
	w.HTTP = m.HTTP.clone()
	if codes, given := inner.texts("expected_codes"); given {
		if w.HTTP.ExpectedCodes = codes; !validCodes(codes) {
			inner.fail("expected_codes", "Expect status codes, or one range of them.")
		}
	}
	w.HTTP.Method = inner.oneOf("method", w.HTTP.Method, httpMethods...)
	if w.HTTP.URLPath = inner.text("url_path", w.HTTP.URLPath); !strings.HasPrefix(w.HTTP.URLPath, "/") {
		inner.fail("url_path", "The path must begin with a slash.")
	}
	switch {
	case inner.null("host"):
		w.HTTP.Host = nil
	case inner.has("host"):
		host := inner.text("host", "")
		w.HTTP.Host = &host
	}
	f.take("http", inner)
	if w.HTTP.Host != nil && w.HTTP.Version == "1.0" {
		f.fail("http", "The host argument can not be used with HTTP version 1.0.")
	}
	return w
}

// validCodes reports whether these are codes, or a range alone.
func validCodes(codes []string) bool {
	if len(codes) == 1 {
		if ends := httpRange.FindStringSubmatch(codes[0]); ends != nil {
			return ends[1] <= ends[2]
		}
	}
	return len(codes) > 0 && !slices.ContainsFunc(codes, func(c string) bool { return !httpCode.MatchString(c) })
}

func (s *Simulator) removeMonitor(q *request) error {
	m, err := find(&s.monitors, q.id)
	if err != nil {
		return err
	}
	return s.change(q, s.lbOf(m.Pool), func() { s.monitors.Remove(m.UUID) })
}

func (s *Simulator) recheckPool(q *request, pool string) {
	for _, m := range s.membersOf(pool) {
		s.recheck(m, q.now)
	}
}

func (c *HTTPCheck) clone() *HTTPCheck {
	if c == nil {
		return nil
	}
	d := *c
	d.ExpectedCodes = slices.Clone(c.ExpectedCodes)
	if c.Host != nil {
		host := *c.Host
		d.Host = &host
	}
	return &d
}

// HealthMonitors returns all health monitors, oldest first.
func (s *Simulator) HealthMonitors() []HealthMonitor {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []HealthMonitor
	for m := range s.monitors.All() {
		c := *m
		c.HTTP, c.Tags = m.HTTP.clone(), maps.Clone(m.Tags)
		all = append(all, c)
	}
	return all
}
