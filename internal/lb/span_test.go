package lb

import (
	"math/big"
	"net/netip"
	"strings"
	"testing"

	"go4.org/netipx"
)

func TestParseSpan(t *testing.T) {
	for _, tt := range []struct{ in, want, err string }{
		{"192.0.2.0/24", "192.0.2.0/24", ""},
		{"192.0.2.77/24", "192.0.2.0/24", ""},
		{" 192.0.2.0/24\n", "192.0.2.0/24", ""},
		{"192.0.2.1-192.0.2.9", "192.0.2.1-192.0.2.9", ""},
		{"192.0.2.1 - 192.0.2.9", "192.0.2.1-192.0.2.9", ""},
		{"192.0.2.0-192.0.2.255", "192.0.2.0/24", ""},
		{"192.0.2.1-192.0.2.1", "192.0.2.1", ""},
		{"192.0.2.1", "192.0.2.1", ""},
		{"2001:db8::/64", "2001:db8::/64", ""},
		{"2001:db8::1-2001:db8::9", "2001:db8::1-2001:db8::9", ""},
		{"0.0.0.0/0", "0.0.0.0/0", ""},

		{"", "", `"" is not an IP address`},
		{"192.0.2.0/33", "", `"192.0.2.0/33" is not a CIDR such as 192.0.2.0/24 or 2001:db8::/64`},
		{"192.0.2.0/", "", "is not a CIDR"},
		{"192.0.2.300", "", `"192.0.2.300" is not an IP address`},
		{"192.0.2.9-192.0.2.1", "", "ends before it starts"},
		{"192.0.2.9-2001:db8::1", "", "mixes IPv4 and IPv6"},
		{"192.0.2.1-", "", `"" is not an IP address`},
		{"192.0.2.1-192.0.2.3-192.0.2.9", "", "is not an IP address"},
		{"fe80::1%eth0", "", "has a zone"},
		{"fe80::%eth0/64", "", "is not a CIDR"},
		{"::ffff:192.0.2.1", "", "IPv4-mapped"},
		{"::ffff:192.0.2.0/120", "", "IPv4-mapped"},
	} {
		got, err := ParseSpan(tt.in)
		switch {
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%q: error %v, want %q", tt.in, err, tt.err)
		case tt.err == "" && (err != nil || SpanString(got) != tt.want):
			t.Errorf("%q: %v, %v, want %s", tt.in, got, err, tt.want)
		}
	}
}

// FuzzParseSpan: what is read is a valid range of one family without surprises,
// and what it writes can be read again.
func FuzzParseSpan(f *testing.F) {
	for _, s := range []string{"192.0.2.0/24", "192.0.2.1 - 192.0.2.9", "2001:db8::/64", "::ffff:1.2.3.4/96", "fe80::1%eth0", "-", "/", "::-::", "1.2.3.4-::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseSpan(s)
		if err != nil {
			if r.IsValid() || !strings.Contains(err.Error(), `"`) {
				t.Errorf("%q: %v with error %q", s, r, err)
			}
			return
		}
		if !r.IsValid() || FamilyOf(r.From()) != FamilyOf(r.To()) || r.From().Is4In6() || r.From().Zone() != "" || r.To().Zone() != "" {
			t.Fatalf("%q: %v", s, r)
		}
		if n := SpanSize(r); n.Sign() <= 0 || n.Cmp(new(big.Int).Lsh(big.NewInt(1), 128)) > 0 {
			t.Errorf("%q: %s addresses", s, n)
		}
		if again, err := ParseSpan(SpanString(r)); err != nil || again != r {
			t.Errorf("%q: %v written as %q, read as %v, %v", s, r, SpanString(r), again, err)
		}
		_ = Unusable(r)
	})
}

// FuzzParseAddr: what is read is what netip reads, but for zones and mapped
// addresses.
func FuzzParseAddr(f *testing.F) {
	for _, s := range []string{"192.0.2.7", " 2001:db8::7\t", "::ffff:192.0.2.7", "fe80::1%eth0", "192.0.2.07", "", "1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddr(s)
		want, wantErr := netip.ParseAddr(strings.TrimSpace(s))
		if refused := wantErr != nil || want.Zone() != "" || want.Is4In6(); refused != (err != nil) {
			t.Fatalf("%q: %v, %v", s, a, err)
		}
		if err != nil {
			if a.IsValid() {
				t.Errorf("%q: %v with error", s, a)
			}
			return
		}
		if again, err := ParseAddr(a.String()); a != want || err != nil || again != a {
			t.Errorf("%q: %v, then %v, %v", s, a, again, err)
		}
	})
}

func TestUnusable(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.0/24":                    "",
		"2001:db8::/32":                   "",
		"10.0.0.0/8":                      "",
		"fd00::/8":                        "",
		"0.0.0.0":                         "unspecified",
		"0.0.0.0/0":                       "unspecified",
		"127.0.0.1":                       "loopback",
		"126.0.0.0-128.0.0.0":             "loopback",
		"169.254.1.1":                     "link-local",
		"224.0.0.0/24":                    "multicast",
		"255.255.255.255":                 "broadcast",
		"::":                              "unspecified",
		"::1":                             "loopback",
		"fe80::1":                         "link-local",
		"ff02::1":                         "multicast",
		"febf:ffff::-fec0::":              "link-local",
		"223.255.255.255-223.255.255.255": "",
	} {
		r, err := ParseSpan(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := Unusable(r); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestSpanSize(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.0/24":            "256",
		"192.0.2.7":               "1",
		"0.0.0.0/0":               "4294967296",
		"2001:db8::/64":           "18446744073709551616",
		"::/0":                    "340282366920938463463374607431768211456",
		"2001:db8::1-2001:db8::3": "3",
	} {
		r, err := ParseSpan(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := SpanSize(r).String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestContains(t *testing.T) {
	var p Pool
	for _, s := range []string{"192.0.2.0/30", "192.0.2.8", "2001:db8::/126"} {
		r, _ := ParseSpan(s)
		p.Spans = append(p.Spans, r)
	}
	p.Excluded = []netipx.IPRange{netipx.MustParseIPRange("192.0.2.4-192.0.2.5")}
	for in, want := range map[string]bool{
		"192.0.1.255": false, "192.0.2.0": true, "192.0.2.3": true, "192.0.2.4": false, "192.0.2.8": true, "192.0.2.9": false,
		"2001:db7::": false, "2001:db8::3": true, "2001:db8::4": false,
	} {
		a := netip.MustParseAddr(in)
		if p.Contains(a) != want {
			t.Errorf("contains %s: %v", in, !want)
		}
		if p.Excludes(a) != (in == "192.0.2.4") {
			t.Errorf("excludes %s: %v", in, p.Excludes(a))
		}
	}
}
