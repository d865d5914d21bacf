package metallb

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.io/internal/agent"
	"fairlead.io/internal/bfd"
	"fairlead.io/internal/bgp"
)

// Metrics of sessions under the names of MetalLB's speakers, in both of its modes.
var (
	bgpLabels = []string{"peer", "vrf"} // an empty vrf is as none

	bgpUp         = prometheus.NewDesc("metallb_bgp_session_up", "1 if the BGP session with the peer is established.", bgpLabels, nil)
	bgpUpdates    = prometheus.NewDesc("metallb_bgp_updates_total", "UPDATE messages sent to the peer.", bgpLabels, nil)
	bgpPrefixes   = prometheus.NewDesc("metallb_bgp_announced_prefixes_total", "Prefixes that were announced to the peer.", bgpLabels, nil)
	bgpPending    = prometheus.NewDesc("metallb_bgp_pending_prefixes_total", "Prefixes that are not announced to the peer, because of its limits or families.", bgpLabels, nil)
	bgpOpensOut   = prometheus.NewDesc("metallb_bgp_opens_sent", "OPEN messages sent to the peer.", bgpLabels, nil)
	bgpOpensIn    = prometheus.NewDesc("metallb_bgp_opens_received", "OPEN messages received from the peer.", bgpLabels, nil)
	bgpNotices    = prometheus.NewDesc("metallb_bgp_notifications_sent", "NOTIFICATION messages sent to the peer.", bgpLabels, nil)
	bgpUpdatesIn  = prometheus.NewDesc("metallb_bgp_updates_total_received", "UPDATE messages received from the peer, which are skipped.", bgpLabels, nil)
	bgpAlivesOut  = prometheus.NewDesc("metallb_bgp_keepalives_sent", "KEEPALIVE messages sent to the peer.", bgpLabels, nil)
	bgpAlivesIn   = prometheus.NewDesc("metallb_bgp_keepalives_received", "KEEPALIVE messages received from the peer.", bgpLabels, nil)
	bgpRefreshOut = prometheus.NewDesc("metallb_bgp_route_refresh_sent", "ROUTE-REFRESH messages sent to the peer.", bgpLabels, nil)
	bgpTotalOut   = prometheus.NewDesc("metallb_bgp_total_sent", "BGP messages sent to the peer.", bgpLabels, nil)
	bgpTotalIn    = prometheus.NewDesc("metallb_bgp_total_received", "BGP messages received from the peer.", bgpLabels, nil)

	bfdUp    = prometheus.NewDesc("metallb_bfd_session_up", "1 if the BFD session with the peer is up.", bgpLabels, nil)
	bfdIn    = prometheus.NewDesc("metallb_bfd_control_packet_input", "BFD control packets received from the peer.", bgpLabels, nil)
	bfdOut   = prometheus.NewDesc("metallb_bfd_control_packet_output", "BFD control packets sent to the peer.", bgpLabels, nil)
	bfdUps   = prometheus.NewDesc("metallb_bfd_session_up_events", "How often the BFD session with the peer came up.", bgpLabels, nil)
	bfdDowns = prometheus.NewDesc("metallb_bfd_session_down_events", "How often the BFD session with the peer failed.", bgpLabels, nil)
)

// peerCollector reads the metrics of sessions when they are asked for.
type peerCollector func() []agent.PeerStatus

// Describe names all metrics.
func (peerCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{bgpUp, bgpUpdates, bgpPrefixes, bgpPending, bgpOpensOut, bgpOpensIn, bgpNotices, bgpUpdatesIn,
		bgpAlivesOut, bgpAlivesIn, bgpRefreshOut, bgpTotalOut, bgpTotalIn, bfdUp, bfdIn, bfdOut, bfdUps, bfdDowns} {
		out <- d
	}
}

// Collect reads them. Of two peers with one address the first counts.
func (c peerCollector) Collect(out chan<- prometheus.Metric) {
	seen := map[string]bool{}
	for _, s := range c() {
		address := s.Peer.Address
		if !address.IsValid() {
			address = s.Remote
		}
		if !address.IsValid() {
			continue
		}
		peer := netip.AddrPortFrom(address, s.Peer.Port).String()
		if seen[peer+"%"+s.Peer.VRF] {
			continue
		}
		seen[peer+"%"+s.Peer.VRF] = true
		for _, m := range []struct {
			desc  *prometheus.Desc
			value float64
		}{
			{bgpUp, number(s.State == bgp.Established)}, {bgpPrefixes, float64(s.Prefixes)}, {bgpPending, float64(len(s.Withheld))},
		} {
			out <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.value, peer, s.Peer.VRF)
		}
		for _, m := range []struct {
			desc  *prometheus.Desc
			value uint64
		}{
			{bgpUpdates, s.Sent.Updates}, {bgpOpensOut, s.Sent.Opens}, {bgpOpensIn, s.Received.Opens}, {bgpNotices, s.Sent.Notifications},
			{bgpUpdatesIn, s.Received.Updates}, {bgpAlivesOut, s.Sent.Keepalives}, {bgpAlivesIn, s.Received.Keepalives},
			{bgpRefreshOut, s.Sent.Refreshes}, {bgpTotalOut, s.Sent.Total()}, {bgpTotalIn, s.Received.Total()},
		} {
			out <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.value), peer, s.Peer.VRF)
		}
		b := s.BFD
		if b == nil || seen[address.String()+"%"+s.Peer.VRF] {
			continue
		}
		seen[address.String()+"%"+s.Peer.VRF] = true
		out <- prometheus.MustNewConstMetric(bfdUp, prometheus.GaugeValue, number(b.State == bfd.Up), address.String(), s.Peer.VRF)
		for _, m := range []struct {
			desc  *prometheus.Desc
			value uint64
		}{{bfdIn, b.Received}, {bfdOut, b.Sent}, {bfdUps, b.Ups}, {bfdDowns, b.Downs}} {
			out <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.value), address.String(), s.Peer.VRF)
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
