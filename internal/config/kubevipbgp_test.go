package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"fairlead.io/internal/lb"
)

// showBGP writes peers as text.
func showBGP(peers []lb.Peer) string {
	var out []string
	for _, p := range peers {
		text := fmt.Sprintf("%d to %s:%d", p.LocalAS, p.Name, p.Port)
		if p.ASRule == lb.ExternalAS {
			text += " any"
		} else {
			text += fmt.Sprintf(" %d", p.PeerAS)
		}
		text += fmt.Sprintf(" %d/%d", int(p.Hold.Seconds()), int(p.Keepalive.Seconds()))
		for _, fact := range []struct {
			is   bool
			text string
		}{
			{p.Interface != "", "unnumbered"}, {p.Password != "", "password " + p.Password}, {p.Multihop, "multihop"}, {p.DualStack, "both families"},
			{p.Source.IsValid(), "from " + p.Source.String()}, {p.SourceInterface != "", "from " + p.SourceInterface},
			{p.RouterID.IsValid(), "ID " + p.RouterID.String()}, {p.RouterIDInterface != "", "ID of " + p.RouterIDInterface},
			{p.NextHops[lb.IPv4].IsValid(), "via " + p.NextHops[lb.IPv4].String()}, {p.NextHops[lb.IPv6].IsValid(), "via " + p.NextHops[lb.IPv6].String()},
		} {
			if fact.is {
				text += " " + fact.text
			}
		}
		if b := p.BFD; b != nil {
			text += fmt.Sprintf(" BFD %s/%s x %d", b.Receive, b.Transmit, b.Multiplier)
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestKubeVIPBGP(t *testing.T) {
	for name, c := range map[string]struct {
		environ string // separated by blanks
		want    string
	}{
		"one peer":      {"bgp_peeraddress=192.0.2.1", "65000 to 192.0.2.1:179 65000 30/10"},
		"all of one":    {"bgp_as=64512 bgp_peeraddress=192.0.2.1 bgp_peeras=64513 bgp_peerpass=secret bgp_multihop=true bgp_sourceip=192.0.2.11 bgp_routerid=10.0.0.1 bgp_hold_time=9 bgp_keepalive_interval=3", "64512 to 192.0.2.1:179 64513 9/3 password secret multihop from 192.0.2.11 ID 10.0.0.1"},
		"interfaces":    {"bgp_peeraddress=2001:db8::1 bgp_sourceif=eth1 bgp_routerinterface=lo", "65000 to 2001:db8::1:179 65000 30/10 from eth1 ID of lo"},
		"no keepalives": {"bgp_peeraddress=192.0.2.1 bgp_hold_time=0 bgp_keepalive_interval=0", "65000 to 192.0.2.1:179 65000 0/0"},
		"next hops":     {"bgp_peeraddress=192.0.2.1 mpbgp_nexthop=fixed mpbgp_ipv6=2001:db8::11", "65000 to 192.0.2.1:179 65000 30/10 both families via 2001:db8::11"},
		"own next hops": {"bgp_peeraddress=192.0.2.1 mpbgp_nexthop=auto_sourceif mpbgp_ipv6=2001:db8::11", "65000 to 192.0.2.1:179 65000 30/10 both families"},
		"list":          {"bgp_peers=192.0.2.1:65001,192.0.2.2:65002:word:true:1179", "65000 to 192.0.2.1:179 65001 30/10; 65000 to 192.0.2.2:1179 65002 30/10 password word multihop"},
		"IPv6":          {"bgp_peers=[2001:db8::1]:65001::false,[2001:db8::2]:65002", "65000 to 2001:db8::1:179 65001 30/10; 65000 to 2001:db8::2:179 65002 30/10"},
		"BFD":           {"bgp_peers=192.0.2.1:65001::::mpbgp_nexthop=fixed;mpbgp_ipv6=[2001:db8::11]:true;50;60;4", "65000 to 192.0.2.1:179 65001 30/10 both families via 2001:db8::11 BFD 50ms/60ms x 4"},
		"BFD defaults":  {"bgp_peers=192.0.2.1:65001:::::true;;;", "65000 to 192.0.2.1:179 65001 30/10 BFD 300ms/300ms x 3"},
		"BFD off":       {"bgp_peers=192.0.2.1:65001:::::false;50;50;3", "65000 to 192.0.2.1:179 65001 30/10"},
		"unnumbered":    {"bgp_peers=unnumbered:eth1,unnumbered:eth2:65003:word", "65000 to eth1:179 any 30/10 unnumbered both families; 65000 to eth2:179 65003 30/10 unnumbered password word both families"},
		"brackets":      {"bgp_peers=192.0.2.1:65001:a[b]c", "65000 to 192.0.2.1:179 65001 30/10 password a[b]c"},
		"both":          {"bgp_peeraddress=192.0.2.1 bgp_peers=192.0.2.2:65002", "65000 to 192.0.2.1:179 65000 30/10; 65000 to 192.0.2.2:179 65002 30/10"},
		"other family":  {"bgp_sourceip=192.0.2.11 bgp_peers=192.0.2.1:1,[2001:db8::1]:1", "65000 to 192.0.2.1:179 1 30/10 from 192.0.2.11; 65000 to 2001:db8::1:179 1 30/10"},

		"no peer":           {"", "error: neither $bgp_peeraddress nor $bgp_peers names a peer"},
		"no address":        {"bgp_peeraddress=router", `error: $bgp_peeraddress: "router" is not`},
		"AS 0":              {"bgp_as=0 bgp_peeraddress=192.0.2.1", `error: $bgp_as: "0" is not an AS number`},
		"hold time 2":       {"bgp_hold_time=2 bgp_keepalive_interval=1 bgp_peeraddress=192.0.2.1", "error: $bgp_hold_time is 2s"},
		"keepalive too big": {"bgp_hold_time=9 bgp_peeraddress=192.0.2.1", "error: not less than $bgp_keepalive_interval, 10s"},
		"two sources":       {"bgp_sourceip=192.0.2.1 bgp_sourceif=eth0 bgp_peeraddress=192.0.2.1", "error: are both set"},
		"IPv6 router ID":    {"bgp_routerid=::1 bgp_peeraddress=192.0.2.1", "error: must be an IPv4 address"},
		"bad next hop":      {"mpbgp_nexthop=near bgp_peeraddress=192.0.2.1", "error: must be fixed, auto_sourceip or auto_sourceif"},
		"fixed to nothing":  {"mpbgp_nexthop=fixed bgp_peeraddress=192.0.2.1", "error: neither mpbgp_ipv4 nor mpbgp_ipv6 is set"},
		"list without AS":   {"bgp_peers=192.0.2.1", `error: peer "192.0.2.1" has no AS`},
		"empty entry":       {"bgp_peers=192.0.2.1:1,", "error: entry 2: it does not begin with the IP address of a peer"},
		"open bracket":      {"bgp_peers=[2001:db8::1:65000", "error: a bracket is not closed"},
		"IPv6, no brackets": {"bgp_peers=2001:db8::1:65000", `error: write IPv6 addresses as [2001:db8::1]`},
		"port":              {"bgp_peers=192.0.2.1:1:::99999", "error: must be a number from 1 to 65535"},
		"multihop":          {"bgp_peers=192.0.2.1:1::far", "error: multihop, the fourth field, must be true or false"},
		"option":            {"bgp_peers=192.0.2.1:1::::x=y", "error: the options, the sixth field, must be mpbgp_nexthop=fixed"},
		"BFD fields":        {"bgp_peers=192.0.2.1:1:::::true;50", "error: must be enabled;receive;transmit;multiplier"},
		"BFD interval":      {"bgp_peers=192.0.2.1:1:::::true;5;50;3", "error: not a number from 10 to 60000"},
		"twice":             {"bgp_peeraddress=192.0.2.1 bgp_peers=192.0.2.1:1", "error: name peer 192.0.2.1 twice"},
		"long password":     {"bgp_peeraddress=192.0.2.1 bgp_peerpass=" + strings.Repeat("x", 81), "error: has 81 bytes"},
		"not true":          {"bgp_enable=maybe", "error: $bgp_enable"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := KubeVIPBGPFrom(append([]string{"bgp_enable=true"}, strings.Fields(c.environ)...))
			if words, wantsError := strings.CutPrefix(c.want, "error: "); wantsError {
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("error %v, want … %s …", err, words)
				}
			} else if err != nil || showBGP(got.Peers) != c.want {
				t.Errorf("got %v, %v\nwant %s", got, err, c.want)
			}
		})
	}
	if got, err := KubeVIPBGPFrom([]string{"bgp_peeraddress=192.0.2.1"}); got != nil || err != nil {
		t.Errorf("not enabled: %v, %v", got, err)
	}
}

// Errors end up in logs: no part of a password does, also if it has colons or commas.
func TestPasswordsOfListedPeersAreNotQuoted(t *testing.T) {
	const secret = "0penSesame"
	for _, peers := range []string{
		"192.0.2.1:65001:a:" + secret, "192.0.2.1:65001:a:true:" + secret, "192.0.2.1:65001:a:true:179:" + secret, "192.0.2.1:65001:a:true:179:" + secret + "=x",
		"192.0.2.1:65001:a:true:179:mpbgp_nexthop=" + secret, "192.0.2.1:65001:a:true:179::" + secret, "192.0.2.1:65001:a:true:179::" + secret + ";1;1;1", "192.0.2.1:65001:a:true:179::true;" + secret + ";1;1",
		"192.0.2.1:" + secret, "192.0.2.1:65001:a," + secret, "192.0.2.1:65001:a," + secret + ":true", "192.0.2.1:65001:a,[" + secret + "]x", "192.0.2.1:65001:a,unnumbered:" + secret + "0123456789",
	} {
		_, err := KubeVIPBGPFrom([]string{"bgp_enable=true", "bgp_peers=" + peers})
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", peers, err)
		}
	}
}

func TestKubeVIPBGPAnnotations(t *testing.T) {
	const p = "metal.equinix.com/"
	b, err := KubeVIPBGPFrom([]string{"bgp_enable=true", "annotations=metal.equinix.com", "bgp_peers=192.0.2.9:1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"one":       {map[string]string{p + "node-asn": "65000", p + "peer-asn": "65530", p + "peer-ip": "169.254.255.1", p + "src-ip": "10.0.0.5"}, "65000 to 169.254.255.1:179 65530 30/10 from 10.0.0.5 ID 10.0.0.5"},
		"several":   {map[string]string{p + "bgp-peers-0-node-asn": "65000", p + "bgp-peers-0-peer-asn": "65530", p + "bgp-peers-0-peer-ip": "169.254.255.1", p + "bgp-peers-1-peer-ip": "169.254.255.2", p + "bgp-peers-0-bgp-pass": "c2VzYW1l", p + "bgp-peers-0-peer-multi-hop": "true"}, "65000 to 169.254.255.1:179 65530 30/10 password sesame multihop; 65000 to 169.254.255.2:179 65530 30/10 password sesame multihop"},
		"a list":    {map[string]string{p + "node-asn": "1", p + "peer-asn": "2", p + "peer-ip": "192.0.2.1, 192.0.2.2"}, "1 to 192.0.2.1:179 2 30/10; 1 to 192.0.2.2:179 2 30/10"},
		"none":      {nil, "error: no annotations about BGP yet"},
		"no peer":   {map[string]string{p + "node-asn": "1", p + "peer-asn": "2"}, "error: no annotations about BGP yet"},
		"bad AS":    {map[string]string{p + "node-asn": "x", p + "peer-asn": "2", p + "peer-ip": "192.0.2.1"}, `error: annotation node-asn: "x"`},
		"bad peer":  {map[string]string{p + "node-asn": "1", p + "peer-asn": "2", p + "peer-ip": "192.0.2"}, "error: annotation peer-ip"},
		"no base64": {map[string]string{p + "node-asn": "1", p + "peer-asn": "2", p + "peer-ip": "192.0.2.1", p + "bgp-pass": "!"}, "error: not base64"},
	} {
		got, err := b.Annotated(c.annotations)
		if words, wantsError := strings.CutPrefix(c.want, "error: "); wantsError {
			if err == nil || !strings.Contains(err.Error(), words) || errors.Is(err, ErrNotAnnotated) != strings.Contains(words, "yet") {
				t.Errorf("%s: error %v, want … %s …", name, err, words)
			}
		} else if err != nil || showBGP(got) != c.want {
			t.Errorf("%s: got %s, %v\nwant %s", name, showBGP(got), err, c.want)
		}
	}
}

// FuzzKubeVIPBGP: whatever the variables say, what is returned can be used, and errors do not
// contain the password.
func FuzzKubeVIPBGP(f *testing.F) {
	f.Add("192.0.2.1:65001:", ":true:179:mpbgp_nexthop=fixed;mpbgp_ipv4=192.0.2.2:true;50;50;3", "65000")
	f.Add("unnumbered:eth0:65001:", "", "x")
	f.Add("[2001:db8::1]:1:", ":maybe", "1")
	f.Fuzz(func(t *testing.T, before, after, as string) {
		const secret = "0penSesame"
		got, err := KubeVIPBGPFrom([]string{"bgp_enable=true", "bgp_as=" + as, "bgp_peers=" + before + secret + after})
		if err != nil {
			if strings.Contains(err.Error(), secret) && strings.Count(before, ":") >= 2 && !strings.ContainsAny(before, "[,") && !strings.HasPrefix(before, "unnumbered") && strings.HasPrefix(after, ":") && !strings.Contains(after, secret) && strings.Count(before, ":") == 2 {
				t.Errorf("the password is told: %v", err)
			}
			return
		}
		for _, p := range got.Peers {
			if p.LocalAS == 0 || p.PeerAS == 0 && p.ASRule == lb.ExactAS || p.Address.IsValid() == (p.Interface != "") || p.Port == 0 || p.Name == "" {
				t.Errorf("%+v", p)
			}
		}
	})
}
