package prose

import (
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLists(t *testing.T) {
	for _, tt := range []struct{ items, and, or, few, clauses string }{
		{"", "", "", "", ""},
		{"a", "a", "a", "a", "a"},
		{"a b", "a and b", "a or b", "a and b", "a; b"},
		{"a b c", "a, b and c", "a, b or c", "a, b and c", "a; b; c"},
		{"a b c d", "a, b, c and d", "a, b, c or d", "a, b, c and d", "a; b; c; d"},
		{"a b c d e f", "a, b, c, d, e and f", "a, b, c, d, e or f", "a, b, c, d, and 2 more", "a; b; c; d; and 2 more"},
	} {
		items := strings.Fields(tt.items)
		for got, want := range map[string]string{And(items): tt.and, Or(items): tt.or, Few(items): tt.few, Clauses(items): tt.clauses} {
			if got != want {
				t.Errorf("%q: got %q, want %q", tt.items, got, want)
			}
		}
	}
}

func TestAddrs(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")
	for want, in := range map[string][]netip.Addr{
		"":                                       nil,
		"192.0.2.7":                              {four},
		"192.0.2.7 and 2001:db8::7":              {four, six},
		"192.0.2.7, 2001:db8::7 and 2001:db8::7": {four, six, six},
	} {
		if got := Addrs(in); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := Commas([]netip.Addr{four, six}); got != "192.0.2.7, 2001:db8::7" {
		t.Errorf("got %q", got)
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text string
		size int
		want string
	}{
		{"short", 5, "short"},
		{"longer", 5, "longe…"},
		{"aä", 2, "a…"},
		{"€", 1, "…"},
	} {
		if got := Cut(tt.text, tt.size); got != tt.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.text, tt.size, got, tt.want)
		}
	}
}

func TestQuote(t *testing.T) {
	if got := Quote(`a"b`); got != `"a\"b"` {
		t.Errorf("got %s", got)
	}
	if got := Quote(strings.Repeat("ä\xff", 1000)); len(got) > 200 || !utf8.ValidString(got) || !strings.HasSuffix(got, `…"`) {
		t.Errorf("got %s", got)
	}
}

func TestSentence(t *testing.T) {
	for in, want := range map[string]string{"": "", "add it": "Add it", "Éa": "Éa", "éa": "Éa"} {
		if got := Sentence(in); got != want {
			t.Errorf("Sentence(%q) = %q, want %q", in, got, want)
		}
	}
}
