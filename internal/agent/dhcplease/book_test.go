package dhcplease

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

var (
	born  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	given = netip.MustParseAddr("192.0.2.7")
)

func keyOfName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// wantOf is a Service of an age in minutes that wants a lease of IPv4.
func wantOf(name string, age int, share string, port uint16) *Want {
	return &Want{Request: &lb.Request{Service: keyOfName(name), UID: types.UID(name), Created: born.Add(-time.Duration(age) * time.Minute),
		Families: []lb.Family{lb.IPv4}, ShareKey: share, Ports: []lb.Port{{Protocol: "TCP", Number: port}}},
		Families: [len(lb.Families)]bool{lb.IPv4: true}, Pool: lb.PoolKey{Name: "lan"}}
}

func (b *book) put(w *Want) affected { return b.set(w.Request.Service, w) }

// leasesOf lists who has which lease, without the leases' names.
func (b *book) leasesOf() (out []string) {
	for name, members := range b.members {
		var text []string
		for _, c := range members {
			text = append(text, c.family(name).String()+" "+c.Request.Service.Name)
		}
		out = append(out, strings.Join(text, ", "))
	}
	slices.Sort(out)
	return out
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Services that share have one lease; one whose port is taken has its own.
func TestSharersHaveOneLease(t *testing.T) {
	b := newBook()
	b.put(wantOf("a", 3, "key", 80))
	b.put(wantOf("b", 2, "key", 443))
	b.put(wantOf("c", 1, "key", 80))
	b.put(wantOf("alone", 1, "", 80))
	same(t, "leases", b.leasesOf(), "[IPv4 a, IPv4 b IPv4 alone IPv4 c]")
	shared := b.services[keyOfName("a")].names[lb.IPv4]
	same(t, "moved", b.setLeased(shared, given), "[shop/a shop/b]")
	same(t, "moved again", b.setLeased(shared, given), "[]")
	same(t, "at the address", b.at[given].UnsortedList(), []string{shared})

	// The oldest goes: the one that it kept out takes its place.
	a := b.set(keyOfName("a"), nil)
	same(t, "moved", a.services, "[shop/c]")
	same(t, "leases", b.leasesOf(), "[IPv4 alone IPv4 b, IPv4 c]")
	b.setLeased(shared, netip.Addr{})
	for _, name := range []string{"b", "c", "alone"} {
		b.set(keyOfName(name), nil)
	}
	same(t, "left", len(b.members)+len(b.groups)+len(b.services)+len(b.leased)+len(b.at), 0)
}

// Both families of a Service are the same client, under two names of leases.
func TestIdentity(t *testing.T) {
	b := newBook()
	w := wantOf("web", 1, "", 80)
	w.Families, w.Hostname, w.MAC, w.Requested = [len(lb.Families)]bool{true, true}, "web", net.HardwareAddr{2, 0, 0, 0, 0, 7}, netip.MustParseAddr("192.0.2.70")
	b.put(w)
	names := b.services[keyOfName("web")].names
	v4, v6 := b.identity(names[lb.IPv4]), b.identity(names[lb.IPv6])
	if names[lb.IPv4] == names[lb.IPv6] || v4.ID != v6.ID || v4.Hostname != "web" || v4.MAC.String() != "02:00:00:00:00:07" || v4.Requested != w.Requested || v6.Requested.IsValid() {
		t.Errorf("%+v, %+v", v4, v6)
	}
}

// Clusters on one LAN have Services that share by the same names; they are not the
// same to its DHCP servers.
func TestSharersOfAnotherCluster(t *testing.T) {
	identity := func(cluster types.UID) string {
		b := newBook()
		b.cluster = cluster
		b.put(wantOf("web", 1, "key", 80))
		return b.identity(b.services[keyOfName("web")].names[lb.IPv4]).MAC.String()
	}
	one, two, again := identity("one"), identity("two"), identity("one")
	if one == two {
		t.Error("one identity for Services of two clusters")
	}
	if one != again {
		t.Error("two identities for one")
	}
}

// What was reported last is had next; what was lost is not.
func TestLastLease(t *testing.T) {
	lease := func(addr string, age time.Duration) v1alpha1.Agent {
		return v1alpha1.Agent{Status: v1alpha1.AgentStatus{Leases: []v1alpha1.Lease{{Service: "shop/web", Family: "IPv4", Address: addr, Since: metav1.NewMicroTime(born.Add(-age))}}}}
	}
	b := newBook()
	w := wantOf("web", 1, "", 80)
	w.Published[lb.IPv4] = given
	b.put(w)
	name := b.services[keyOfName("web")].names[lb.IPv4]
	same(t, "nothing reported", b.last(name).Address, "192.0.2.7")
	b.reported = v1alpha1.LatestLeases([]v1alpha1.Agent{lease("192.0.2.8", time.Hour), lease("192.0.2.7", 2*time.Hour)})
	same(t, "reported", b.last(name).Address, "192.0.2.8")
	b.reported = v1alpha1.LatestLeases([]v1alpha1.Agent{lease("192.0.2.8", time.Hour), lease("", time.Minute)})
	same(t, "lost", b.last(name).Address, "")
}
