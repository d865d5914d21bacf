package cloudscale

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
)

// differing notes a field that is not what it should be.
func differing[T comparable](changes *[]lb.Change, field string, have, want T) *T {
	if have == want {
		return nil
	}
	*changes = append(*changes, lb.Change{Field: field, From: fmt.Sprint(have), To: fmt.Sprint(want)})
	return &want
}

// patchListener changes a listener in place, all at once.
func (p *planner) patchListener(l *cloudscale.Listener, port *compat.Port) {
	var changes []lb.Change
	impact := lb.ImpactNone
	patch := cloudscale.ListenerPatch{
		Name:                   differing(&changes, "name", l.Name, port.Listener),
		TimeoutClientDataMS:    differing(&changes, "timeout_client_data_ms", l.TimeoutClientDataMS, port.ClientDataMS),
		TimeoutMemberConnectMS: differing(&changes, "timeout_member_connect_ms", l.TimeoutMemberConnectMS, port.MemberConnectMS),
		TimeoutMemberDataMS:    differing(&changes, "timeout_member_data_ms", l.TimeoutMemberDataMS, port.MemberDataMS),
	}
	if have, want := networks(l.AllowedCIDRs), networks(port.AllowedCIDRs); !slices.Equal(have, want) {
		cidrs := cloudscale.CIDRs(want)
		patch.AllowedCIDRs, impact = &cidrs, lb.ImpactNewConnections
		changes = append(changes, lb.Change{Field: "allowed_cidrs", From: fmt.Sprint(have), To: fmt.Sprint(want)})
	}
	if len(changes) > 0 {
		p.add(lb.Step{Verb: lb.VerbUpdate, Kind: kindListener, Name: l.Name, Part: port.Pool, ID: l.UUID, Body: patch, Changes: changes, Impact: impact})
	}
}

// networks are sorted, so that they can be compared. The cloud may write them in
// another order.
func networks(in []netip.Prefix) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(in))
	for _, p := range in {
		out = append(out, p.Masked())
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// monitorKey is what of a monitor cannot be changed.
type monitorKey struct{ Type, Version string }

func monitorKeyOf(m *cloudscale.HealthMonitor) monitorKey {
	k := monitorKey{Type: m.Type}
	if usesHTTP(m.Type) {
		if k.Version = "1.1"; m.HTTP != nil && m.HTTP.Version != "" {
			k.Version = m.HTTP.Version
		}
	}
	return k
}

func wantedMonitorKey(m *compat.Monitor) monitorKey {
	k := monitorKey{Type: m.Type}
	if m.HTTP != nil {
		k.Version = m.HTTP.Version
	}
	return k
}

func usesHTTP(monitorType string) bool { return monitorType == "http" || monitorType == "https" }

// monitor makes the pool's members be checked as they should be. A pool has one
// monitor, so another one can only be made after it.
func (p *planner) monitor(i int) {
	port, kept, had := &p.d.Ports[i], false, false
	// A monitor that asks for something finds it only at members that were made
	// for it.
	var later time.Duration
	if usesHTTP(port.Monitor.Type) && p.replacing(i) {
		later = settleLook
	}
	for _, m := range p.a.Monitors {
		if p.pools[i] == nil || m.Pool.UUID != p.pools[i].UUID {
			continue
		}
		if had = true; !kept && monitorKeyOf(&m) == wantedMonitorKey(&port.Monitor) {
			kept = true
			p.patchMonitor(&m, port)
			continue
		}
		p.add(lb.Step{Verb: lb.VerbDelete, Kind: kindMonitor, Part: port.Pool, ID: m.UUID, Impact: lb.ImpactNewConnections, Later: later})
	}
	if kept {
		return
	}
	m := &port.Monitor
	body := cloudscale.NewHealthMonitor{Type: m.Type, DelayS: m.DelayS, TimeoutS: m.TimeoutS, UpThreshold: m.UpThreshold, DownThreshold: m.DownThreshold, Tags: p.tags()}
	if m.HTTP != nil {
		h := cloudscale.HTTPCheck(*m.HTTP)
		body.HTTP = &h
	}
	s := lb.Step{Verb: lb.VerbCreate, Kind: kindMonitor}
	if had {
		s.Impact, s.Later = lb.ImpactNewConnections, later
	}
	body.Pool = p.inPool(&s, i)
	s.Body = body
	p.add(s)
}

// patchMonitor changes a monitor in place, all at once.
func (p *planner) patchMonitor(m *cloudscale.HealthMonitor, port *compat.Port) {
	var changes []lb.Change
	want := &port.Monitor
	patch := cloudscale.HealthMonitorPatch{
		DelayS:        differing(&changes, "delay_s", m.DelayS, want.DelayS),
		TimeoutS:      differing(&changes, "timeout_s", m.TimeoutS, want.TimeoutS),
		UpThreshold:   differing(&changes, "up_threshold", m.UpThreshold, want.UpThreshold),
		DownThreshold: differing(&changes, "down_threshold", m.DownThreshold, want.DownThreshold),
	}
	if want.HTTP != nil {
		var have cloudscale.HTTPCheck
		if m.HTTP != nil {
			have = *m.HTTP
		}
		before := len(changes)
		differing(&changes, "http.method", have.Method, want.HTTP.Method)
		differing(&changes, "http.url_path", have.URLPath, want.HTTP.URLPath)
		differing(&changes, "http.host", quoted(have.Host), quoted(want.HTTP.Host))
		differing(&changes, "http.expected_codes", fmt.Sprint(have.ExpectedCodes), fmt.Sprint(want.HTTP.ExpectedCodes))
		if len(changes) > before {
			patch.HTTP = &cloudscale.HTTPCheckPatch{ExpectedCodes: want.HTTP.ExpectedCodes, Method: want.HTTP.Method, URLPath: want.HTTP.URLPath, Host: want.HTTP.Host}
		}
	}
	if len(changes) > 0 {
		p.add(lb.Step{Verb: lb.VerbUpdate, Kind: kindMonitor, Part: port.Pool, ID: m.UUID, Body: patch, Changes: changes, Impact: lb.ImpactNewConnections})
	}
}

func quoted(s *string) string {
	if s == nil {
		return "none"
	}
	return strconv.Quote(*s)
}
