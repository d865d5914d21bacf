package kubevip

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"fairlead.io/internal/lb"
)

func requesting(mac, hostname, requested string) *lb.Service {
	return &lb.Service{Annotations: map[string]string{AnnotationHardwareAddress: mac, AnnotationHostname: hostname, AnnotationRequestedIP: requested}}
}

func TestDHCPRequestOf(t *testing.T) {
	four, both := [len(lb.Families)]bool{lb.IPv4: true}, [len(lb.Families)]bool{true, true}
	longest := strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("b", 61)
	for name, c := range map[string]struct {
		service *lb.Service
		leases  [len(lb.Families)]bool
		want    string // what is told to a server
		says    string // what is ignored, and why
	}{
		"nothing":                 {service: requesting("", "", " "), leases: four},
		"all":                     {service: requesting("02:00:5e:10:00:01", "web.shop", "192.0.2.7"), leases: four, want: "02:00:5e:10:00:01 web.shop 192.0.2.7"},
		"in other spellings":      {service: requesting(" 0200.5E10.0001 ", "Web-1", "2001:DB8::7\n"), leases: both, want: "02:00:5e:10:00:01 Web-1 2001:db8::7"},
		"no MAC address":          {service: requesting("web", "web", ""), leases: four, want: "web", says: `annotation kube-vip.io/hwaddr is "web", which is not a MAC address of six bytes such as 02:00:5e:10:00:01`},
		"a MAC address too long":  {service: requesting("02:00:5e:10:00:01:02:03", "", ""), leases: four, says: `is "02:00:5e:10:00:01:02:03", which is not a MAC address of six bytes`},
		"a MAC address too short": {service: requesting("02:00:5e:10:00", "", ""), leases: four, says: "which is not a MAC address of six bytes"},
		"of a group":              {service: requesting("01:00:5e:00:00:12", "", "192.0.2.7"), leases: four, want: "192.0.2.7", says: `"01:00:5e:00:00:12", which is the MAC address of a group`},
		"of everybody":            {service: requesting("ff:ff:ff:ff:ff:ff", "", ""), leases: four, says: "of a group"},
		"of nobody":               {service: requesting("00:00:00:00:00:00", "", ""), leases: four, says: "which is not the MAC address of a host"},
		"no address":              {service: requesting("", "", "192.0.2"), leases: four, says: `annotation kube-vip.io/requestedIP is "192.0.2", which is not an IPv4 or IPv6 address`},
		"with a zone":             {service: requesting("", "", "fe80::1%eth0"), leases: both, says: "which is not an IPv4 or IPv6 address"},
		"any address":             {service: requesting("", "", "0.0.0.0"), leases: four, says: `"0.0.0.0", which is one of the unspecified addresses`},
		"any address, IPv6":       {service: requesting("", "", "::"), leases: both, says: `"::", which is one of the unspecified addresses`},
		"of the other family":     {service: requesting("", "", "2001:db8::7"), leases: four, says: `"2001:db8::7", but the Service has no IPv6 address from a DHCP server`},
		"the longest name":        {service: requesting("", longest, ""), leases: four, want: longest},
		"a name too long":         {service: requesting("", longest+"b", ""), leases: four, says: "which has 254 characters; a host name has at most 253"},
		"a part too long":         {service: requesting("", "web."+strings.Repeat("a", 64), ""), leases: four, says: "which has a part of 64 characters; a part of a host name has at most 63"},
		"a name with a blank":     {service: requesting("", "my web", ""), leases: four, says: `annotation kube-vip.io/loadbalancerHostname is "my web", which is not a host name of letters`},
		"a name with a control":   {service: requesting("", "web\x00\x1b[31m", ""), leases: four, says: `"web\x00\x1b[31m", which is not a host name of letters`},
		"a name with a hyphen":    {service: requesting("", "-web", ""), leases: four, says: "which is not a host name of letters"},
		"a name with a gap":       {service: requesting("", "web..shop", ""), leases: four, says: "a part between dots is empty"},
		"nothing of use":          {service: requesting("x", "_", "y"), leases: four, says: `kube-vip.io/hwaddr is "x", which is not a MAC address of six bytes such as 02:00:5e:10:00:01; annotation kube-vip.io/loadbalancerHostname is "_"`},
	} {
		t.Run(name, func(t *testing.T) {
			w, ignored := DHCPRequestOf(c.service, c.leases)
			got := strings.Join(strings.Fields(strings.Join([]string{w.MAC.String(), w.Hostname, strings.TrimPrefix(w.Requested.String(), "invalid IP")}, " ")), " ")
			if got != c.want {
				t.Errorf("requests %q, want %q", got, c.want)
			}
			switch {
			case ignored == nil && c.says != "":
				t.Error("nothing is said")
			case ignored != nil && (c.says == "" || ignored.Code != LeaseWishIgnored || !strings.Contains(ignored.Text, c.says)):
				t.Errorf("says %s, want %q", ignored, c.says)
			}
		})
	}
}

// Whatever somebody writes, a request is either one that can go into a packet, or is
// told of in a sentence that can be read.
func FuzzDHCPRequestOf(f *testing.F) {
	f.Add("02:00:5e:10:00:01", "web.shop", "192.0.2.7", true, false)
	f.Add("01:00:5e:00:00:12", "web..", "::", true, true)
	f.Add("02:00:5e:10:00:01:02:03", strings.Repeat("é", 200), "fe80::1%eth0", false, true)
	f.Add("\x00", "\xff\n", "::ffff:192.0.2.7", false, false)
	f.Fuzz(func(t *testing.T, mac, hostname, requested string, four, six bool) {
		var leases [len(lb.Families)]bool
		leases[lb.IPv4], leases[lb.IPv6] = four, six
		w, ignored := DHCPRequestOf(requesting(mac, hostname, requested), leases)
		if w.MAC != nil && (len(w.MAC) != 6 || w.MAC[0]&1 != 0 || w.MAC.String() == net.HardwareAddr(make([]byte, 6)).String()) {
			t.Errorf("MAC address %s", w.MAC)
		}
		if len(w.Hostname) > 253 || strings.ContainsFunc(w.Hostname, func(r rune) bool {
			return r != '-' && r != '.' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
		}) {
			t.Errorf("host name %q", w.Hostname)
		}
		if a := w.Requested; a != (netip.Addr{}) && (a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" || !leases[lb.FamilyOf(a)]) {
			t.Errorf("address %s", a)
		}
		told := map[string]bool{AnnotationHardwareAddress: w.MAC != nil, AnnotationHostname: w.Hostname != "", AnnotationRequestedIP: w.Requested.IsValid()}
		for annotation, taken := range told {
			asked := strings.TrimSpace(requesting(mac, hostname, requested).Annotations[annotation]) != ""
			says := ignored != nil && strings.Contains(ignored.Text, "annotation "+annotation+" is \"")
			if asked != (taken || says) || taken && says {
				t.Errorf("%s is taken: %v, and told of: %v (%v)", annotation, taken, says, ignored)
			}
		}
		if ignored != nil && (!utf8.ValidString(ignored.Text) || strings.ContainsFunc(ignored.Text, unicode.IsControl) || len(ignored.Text) > 2500) {
			t.Errorf("says %q", ignored.Text)
		}
	})
}
