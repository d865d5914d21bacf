package kubevip

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// dhcpWords are the annotations of s that ask for an address by DHCP, or say something
// about that.
func dhcpWords(s *lb.Service) (out []string) {
	for _, key := range []string{AnnotationAddresses, AnnotationHardwareAddress, AnnotationRequestedIP} {
		text := s.Annotations[key]
		asks := strings.TrimSpace(text) != ""
		if key == AnnotationAddresses {
			asks = slices.ContainsFunc(strings.SplitN(text, ",", most+1), func(field string) bool {
				a, err := lb.ParseAddr(field)
				return err == nil && a.IsUnspecified()
			})
		}
		if asks {
			out = append(out, "annotation "+key)
		}
	}
	return out
}

// DHCPRequest is how a Service identifies itself to a DHCP server, and which address
// it requests.
type DHCPRequest struct {
	MAC       net.HardwareAddr // nil if it requests none
	Hostname  string           // "" if it has none
	Requested netip.Addr       // not valid if it asks for none
}

// DHCPRequestOf reads the request on s, which has addresses of these families from
// DHCP servers. A value that cannot be used is left out: users of kube-vip must not
// lose an address over it. The reason, if any, lists all of those.
func DHCPRequestOf(s *lb.Service, leases [len(lb.Families)]bool) (w DHCPRequest, ignored *lb.Reason) {
	var wrong []string
	for _, x := range []struct {
		annotation string
		read       func(*DHCPRequest, string) (why string)
	}{
		{AnnotationHardwareAddress, (*DHCPRequest).readMAC},
		{AnnotationHostname, (*DHCPRequest).readHostname},
		{AnnotationRequestedIP, func(w *DHCPRequest, text string) string { return w.readRequested(text, leases) }},
	} {
		text := strings.TrimSpace(s.Annotations[x.annotation])
		if text == "" {
			continue
		}
		if why := x.read(&w, text); why != "" {
			wrong = append(wrong, fmt.Sprintf("annotation %s is %s, %s", x.annotation, prose.Quote(text), why))
		}
	}
	if len(wrong) > 0 {
		r := Reasons.With(LeaseWishIgnored, strings.Join(wrong, "; "))
		ignored = &r
	}
	return w, ignored
}

// readMAC takes over a hardware address that one host can have, or says what is
// wrong with it.
func (w *DHCPRequest) readMAC(text string) string {
	mac, err := net.ParseMAC(text)
	switch {
	case err != nil || len(mac) != 6:
		return "which is not a MAC address of six bytes such as 02:00:5e:10:00:01"
	case mac[0]&1 != 0:
		return "which is the MAC address of a group, not of a host"
	case !slices.ContainsFunc(mac, func(b byte) bool { return b != 0 }):
		return "which is not the MAC address of a host"
	}
	w.MAC = mac
	return ""
}

// Lengths of names in the DNS, RFC 1035.
const (
	maxLabel = 63
	maxName  = 253
)

func (w *DHCPRequest) readHostname(text string) string {
	if len(text) > maxName {
		return fmt.Sprintf("which has %d characters; a host name has at most %d", len(text), maxName)
	}
	for label := range strings.SplitSeq(text, ".") {
		switch {
		case label == "":
			return "which is not a host name: a part between dots is empty"
		case len(label) > maxLabel:
			return fmt.Sprintf("which has a part of %d characters; a part of a host name has at most %d", len(label), maxLabel)
		case len(validation.IsDNS1123Label(strings.ToLower(label))) > 0:
			return "which is not a host name of letters, digits, hyphens and dots, with a letter or digit at both ends of each part"
		}
	}
	w.Hostname = text
	return ""
}

func (w *DHCPRequest) readRequested(text string, leases [len(lb.Families)]bool) string {
	a, err := lb.ParseAddr(text)
	switch {
	case err != nil:
		return "which is not an IPv4 or IPv6 address such as 192.0.2.7"
	case unusable(a) != "":
		return fmt.Sprintf("which is one of the %s addresses, which a Service cannot use", unusable(a))
	case !leases[lb.FamilyOf(a)]:
		return fmt.Sprintf("but the Service has no %s address from a DHCP server", lb.FamilyOf(a))
	}
	w.Requested = a
	return ""
}
