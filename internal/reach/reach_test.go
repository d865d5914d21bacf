package reach

import (
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/cloudsigma"
	"fairlead.io/internal/lb"
)

const id = "0f7a3c0e-98f7-4c53-8d0b-70f0a6a3f4f6"

// Which announced addresses pass: by the mode of the node's public card, and by
// subscription.
func TestFind(t *testing.T) {
	public := func(mode string) []cloudsigma.NIC {
		return []cloudsigma.NIC{{VLAN: "private"}, {V4: &cloudsigma.IPConf{Conf: mode}, V6: &cloudsigma.IPConf{Conf: cloudsigma.DHCP}, Runtime: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}
	}
	attached := cloudsigma.Server{UUID: id, Name: "server", NICs: public(cloudsigma.DHCP)}
	attached.Attach(netip.MustParseAddr("192.0.2.7"))
	of := func(nics []cloudsigma.NIC) cloudsigma.Server {
		return cloudsigma.Server{UUID: id, Name: "server", NICs: nics}
	}
	for name, c := range map[string]struct {
		server     cloudsigma.Server
		providerID string
		address    string
		want       lb.Code
		words      string
	}{
		"manual and subscribed":      {of(public(cloudsigma.Manual)), "cloudsigma://" + id, "192.0.2.7", "", ""},
		"manual, not subscribed":     {of(public(cloudsigma.Manual)), "cloudsigma://" + id, "192.0.2.8", AddressNotSubscribed, "worker-1 announces 192.0.2.8"},
		"manual, not of the account": {of(public(cloudsigma.Manual)), "cloudsigma://" + id, "192.0.2.99", AddressNotSubscribed, "192.0.2.99"},
		"by DHCP":                    {of(public(cloudsigma.DHCP)), "cloudsigma://" + id, "192.0.2.7", CardNotManual, "server server is in mode dhcp"},
		"manual for IPv4 only":       {of(public(cloudsigma.Manual)), "cloudsigma://" + id, "2001:db8::7", CardNotManual, "mode dhcp"},
		"no public card":             {of(public(cloudsigma.Manual)[:1]), "cloudsigma://" + id, "192.0.2.7", CardNotManual, "no public NIC"},
		"a card of its own":          {attached, "cloudsigma://" + id, "192.0.2.7", "", ""},
		"the server's own address":   {of(public(cloudsigma.DHCP)), "cloudsigma://" + id, "192.0.2.1", "", ""},
		"a private network":          {of(public(cloudsigma.DHCP)), "cloudsigma://" + id, "10.1.1.7", "", ""},
		"by the server's name":       {cloudsigma.Server{UUID: id, Name: "worker-1", NICs: public(cloudsigma.DHCP)}, "", "192.0.2.7", CardNotManual, ""},
		"a node of another cloud":    {of(public(cloudsigma.DHCP)), "aws:///eu/i-0abc", "192.0.2.7", "", ""},
		"a server that is not there": {of(public(cloudsigma.DHCP)), "cloudsigma://6a4ffbab-1ba6-4a8f-8f5f-2d4e4d6b2f0e", "192.0.2.7", "", ""},
		"no address at all":          {of(public(cloudsigma.DHCP)), "cloudsigma://" + id, "moon", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			agents := []v1alpha1.Agent{
				{ObjectMeta: metav1.ObjectMeta{Name: "idle"}},
				{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Status: v1alpha1.AgentStatus{Addresses: []v1alpha1.Announcement{{Address: c.address, Services: []string{"shop/web"}}}}},
			}
			has := &account{servers: []cloudsigma.Server{c.server}, ips: []cloudsigma.IP{
				{UUID: "192.0.2.7", Subscription: &cloudsigma.SubscriptionRef{ID: "1"}}, {UUID: "2001:db8::7", Subscription: &cloudsigma.SubscriptionRef{ID: "2"}}, {UUID: "192.0.2.8"},
			}}
			found := find(agents, map[string]string{"worker-1": c.providerID}, has)
			switch {
			case c.want == "" && len(found) > 0:
				t.Errorf("found %v", found)
			case c.want != "" && (len(found) != 1 || found[0].reason.Code != c.want || !strings.Contains(found[0].reason.Text, c.words) || found[0].services[0] != "shop/web"):
				t.Errorf("found %v, want %s", found, c.want)
			}
		})
	}
}
