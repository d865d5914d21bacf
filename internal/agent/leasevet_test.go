package agent

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/dhcp"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

// listing is a cache of Services.
type listing struct {
	cache.Cache
	services []corev1.Service
}

func (l *listing) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1.ServiceList).Items = l.services
	return nil
}

// A DHCP server that gives what is somebody's gets it back; Services of others and
// nodes do not notice.
func TestLeasedAddressOfOthers(t *testing.T) {
	const given = "192.0.2.7"
	leased := func(name string, age int) *corev1.Service {
		return annotated(serviceOf(name, age, "", 80, given), kubevip.AnnotationAddresses, "0.0.0.0")
	}
	tells := func(a *agent, service string) {
		a.directory.told[v1alpha1.LeaseOf{Service: service, Family: "IPv4"}] = v1alpha1.Lease{Address: given}
	}
	for name, c := range map[string]struct {
		before func(*agent)
		why    string
	}{
		"nobody's":            {func(*agent) {}, ""},
		"a node's":            {func(a *agent) { a.directory.setNodes(sets.New(netip.MustParseAddr(given))) }, "of a node"},
		"of an interface":     {func(a *agent) { a.links[0].Prefixes = []netip.Prefix{netip.MustParsePrefix(given + "/24")} }, "of node a, on eth0"},
		"a Service's":         {func(a *agent) { putKubeVIP(a.directory, serviceOf("young", 1, "", 80, given)) }, "of Service shop/young"},
		"an older lease":      {func(a *agent) { putKubeVIP(a.directory, leased("old", 9)); tells(a, "shop/old") }, "of Service shop/old"},
		"a younger lease":     {func(a *agent) { putKubeVIP(a.directory, leased("young", 1)); tells(a, "shop/young") }, ""},
		"a lease that is old": {func(a *agent) { putKubeVIP(a.directory, leased("old", 9)) }, ""},
		"of the cluster": {func(a *agent) {
			a.cache.(*listing).services = []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{given}}}}
		}, "default/kubernetes inside the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTestAgent(t)
			a.cache, a.gone = &listing{}, map[netip.Addr]bool{}
			a.links = []link.Link{{Name: "eth0", Up: true}}
			c.before(a)
			s := annotated(serviceOf("me", 5, "", 80), kubevip.AnnotationAddresses, "0.0.0.0")
			putKubeVIP(a.directory, s)
			h := &leasehold{token: a.directory.services[client.ObjectKeyFromObject(s)].tokens[lb.IPv4], family: lb.IPv4, client: dhcp.New(dhcp.Config{})}
			a.leaseholds = map[netip.Addr]*leasehold{h.token: h}
			a.leaseChanged(leaseNews{of: h, lease: &dhcp.Lease{Addr: netip.MustParseAddr(given), Until: time.Now().Add(time.Hour), Server: "x"}})
			report := a.leaseReport()
			if c.why == "" {
				if h.lease == nil || report[0].Address != given {
					t.Errorf("not used: %+v", report)
				}
				return
			}
			if h.lease != nil || len(report) != 1 || report[0].Address != "" {
				t.Errorf("used: %+v", report)
			}
			// The client says what it was told.
			h.lease = &dhcp.Lease{Addr: netip.MustParseAddr(given)}
			why := a.unfit(h)
			h.lease = nil
			a.leaseChanged(leaseNews{of: h, err: dhcp.Useless{Why: why}})
			a.leaseChanged(leaseNews{of: h, err: dhcp.Useless{Why: why}})
			if e := a.reporter.events; len(e) != 1 || e[0].Reason != string(lb.LeaseUnusable) || !strings.Contains(e[0].Message, given+" is ") || !strings.Contains(e[0].Message, c.why) {
				t.Errorf("told %v", e)
			}
		})
	}
}

// The claim of a lease outlives its last Service, until others have heard of that,
// too.
func TestParting(t *testing.T) {
	a := newTestAgent(t)
	a.gone, a.parting = map[netip.Addr]bool{}, map[netip.Addr]parting{}
	token, now := tokenOf(lb.IPv4, "x"), time.Now()
	h := &leasehold{token: token, epoch: 7, client: dhcp.New(dhcp.Config{}), end: func() {}}
	a.leaseholds = map[netip.Addr]*leasehold{token: h}
	a.decideToken(token, now)
	if p := a.parting[token]; p.epoch != 7 || len(a.leaseholds) > 0 || !h.release.Load() {
		t.Errorf("%+v, %v", p, a.leaseholds)
	}
	a.part(now.Add(partingTime / 2))
	same(t, "kept", len(a.parting), 1)
	a.part(now.Add(2 * partingTime))
	same(t, "kept", len(a.parting), 0)
}

// Services for which no node can ask are told why, by one agent.
func TestLeaseNotAsked(t *testing.T) {
	a := newTestAgent(t)
	a.parting = map[netip.Addr]parting{}
	s := annotated(serviceOf("me", 5, "", 80), kubevip.AnnotationAddresses, "0.0.0.0", kubevip.AnnotationInterface, "nosuch0")
	putKubeVIP(a.directory, s)
	token := a.directory.services[client.ObjectKeyFromObject(s)].tokens[lb.IPv4]
	for range 2 {
		a.decideToken(token, time.Now())
	}
	if e := a.reporter.events; len(e) != 1 || e[0].Reason != string(lb.LeaseNotAsked) {
		t.Errorf("told %v", e)
	}
	other := newTestAgent(t)
	other.node, other.directory, other.parting = "b", a.directory, map[netip.Addr]parting{}
	other.decideToken(token, time.Now())
	same(t, "told by the other", len(other.reporter.events), 0)
}

// Renewals are told of when what is known falls behind, not each time.
func TestUntold(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		told, until time.Duration
		want        bool
	}{
		{time.Hour, time.Hour + time.Second, false},
		{30 * time.Minute, time.Hour, true},
		{time.Hour, 0, true},
		{0, time.Hour, true},
		{0, 0, false},
	} {
		at := func(d time.Duration) time.Time {
			if d == 0 {
				return time.Time{}
			}
			return now.Add(d)
		}
		if got := untold(at(c.told), at(c.until), now); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Clusters on one LAN have Services that share by the same names; they are not the
// same to its DHCP servers.
func TestSharersOfAnotherCluster(t *testing.T) {
	identity := func(cluster types.UID) string {
		d := leasingDirectory(map[string]string{"cidr-global": "0.0.0.0/32", "allow-share-global": "true"})
		d.cluster = cluster
		s := annotated(serviceOf("web", 1, "", 80), kubevip.AnnotationAddresses, "0.0.0.0")
		putKubeVIP(d, s)
		id := d.identity(d.services[client.ObjectKeyFromObject(s)].tokens[lb.IPv4])
		return id.MAC.String()
	}
	one, two, again := identity("one"), identity("two"), identity("one")
	if one == two {
		t.Error("one identity for Services of two clusters")
	}
	if one != again {
		t.Error("two identities for one")
	}
}
