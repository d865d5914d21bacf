package cloudsigma

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// tableName of the packet filter that is the firewalls.
const tableName = "cloudsigma"

// Enforce makes the firewalls real until the context ends: in a network namespace
// with a bridge, whose ports have the names of the servers, only those frames pass
// that the firewalls let pass, ARP and neighbour discovery included.
func (s *Simulator) Enforce(ctx context.Context, netns string) error {
	changed := make(chan struct{}, 1)
	s.OnChange(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	last := ""
	for {
		ports, about, again := s.Ports()
		if rules := ruleset(ports, about); rules != last {
			if err := loadRules(ctx, netns, rules); err != nil && ctx.Err() == nil {
				return err
			}
			last = rules
		}
		var due <-chan time.Time
		if !again.IsZero() {
			due = time.After(again.Sub(s.Now()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-due:
		}
	}
}

func loadRules(ctx context.Context, netns, rules string) error {
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", netns, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("load firewalls into %s: %w: %s", netns, err, bytes.TrimSpace(out))
	}
	return nil
}

// addressSets are the forms in which nft compares addresses. What is read from
// anywhere in a header is a number.
var addressSets = []struct {
	suffix, of string
	element    func(netip.Addr) (string, bool)
}{
	{"4", "type ipv4_addr", func(a netip.Addr) (string, bool) { return a.String(), a.Is4() }},
	{"6", "type ipv6_addr", func(a netip.Addr) (string, bool) { return a.String(), a.Is6() }},
	{"n", "typeof @th,64,128", func(a netip.Addr) (string, bool) { return fmt.Sprintf("0x%x", a.AsSlice()), a.Is6() }},
}

// matches are the addresses in frames that a firewall looks at: those that a server
// sends from or announces, and those that it is sent to or asked for.
var matches = []struct{ direction, only, field, set string }{
	{"iifname", "", "ip saddr", "4"},
	{"oifname", "", "ip daddr", "4"},
	{"iifname", "", "arp saddr ip", "4"},
	{"oifname", "arp operation request", "arp daddr ip", "4"},
	{"iifname", "", "ip6 saddr", "6"},
	{"oifname", "", "ip6 daddr", "6"},
	{"iifname", "icmpv6 type nd-neighbor-advert", "@th,64,128", "n"},
	{"oifname", "icmpv6 type nd-neighbor-solicit", "@th,64,128", "n"},
}

// ruleset replaces the whole table at once.
func ruleset(ports []Port, about []netip.Addr) string {
	var out strings.Builder
	fmt.Fprintf(&out, "table bridge %[1]s\ndelete table bridge %[1]s\ntable bridge %[1]s {\n", tableName)
	writeSets(&out, "about", about)
	for i, p := range ports {
		writeSets(&out, fmt.Sprint("port", i, "_"), p.Passes)
	}
	fmt.Fprint(&out, "\tchain forward {\n\t\ttype filter hook forward priority 0; policy accept;\n")
	for i, p := range ports {
		for _, m := range matches {
			fmt.Fprintf(&out, "\t\t%s { %q, %q } %s %s @about%s %s != @port%d_%s drop\n", m.direction, p.Server, p.Server+"-*", m.only, m.field, m.set, m.field, i, m.set)
		}
	}
	fmt.Fprint(&out, "\t}\n}\n")
	return out.String()
}

func writeSets(out *strings.Builder, name string, addresses []netip.Addr) {
	for _, set := range addressSets {
		var elements []string
		for _, a := range addresses {
			if text, is := set.element(a); is {
				elements = append(elements, text)
			}
		}
		slices.Sort(elements)
		fmt.Fprintf(out, "\tset %s%s {\n\t\t%s\n", name, set.suffix, set.of)
		if len(elements) > 0 {
			fmt.Fprintf(out, "\t\telements = { %s }\n", strings.Join(elements, ", "))
		}
		fmt.Fprint(out, "\t}\n")
	}
}
