package lb

import (
	"net/netip"
	"testing"
)

func TestCarriers(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")
	for text, c := range map[string]Carriers{
		"":                      {},
		"192.0.2.7: worker-1":   {four: {"worker-1"}},
		"2001:db8::7: any node": {six: {AnyNode}},
		"192.0.2.7: a.b, c; 2001:db8::7: any node": {four: {"a.b", "c"}, six: {AnyNode}},
	} {
		if got := c.String(); got != text {
			t.Errorf("%v is %q, want %q", c, got, text)
		}
		if got := ParseCarriers(text); !got.Equal(c) {
			t.Errorf("%q is %v, want %v", text, got, c)
		}
	}
	c := Carriers{four: {"worker-1"}, six: {AnyNode}}
	if !c.Carry(four, "worker-1") || c.Carry(four, "worker-2") || !c.Carry(six, "worker-2") || c.Carry(netip.MustParseAddr("192.0.2.8"), "worker-1") {
		t.Errorf("wrong nodes carry the addresses of %v", c)
	}
}

func FuzzCarriers(f *testing.F) {
	for _, text := range []string{"", "192.0.2.7: worker-1", "192.0.2.7: a, b; 2001:db8::7: any node", "192.0.2.7", "192.0.2.7: ", "; ", "192.0.2.7: a; 192.0.2.7: b", "192.0.2.7: a, ", "fe80::1%eth0: a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := ParseCarriers(text)
		if again := ParseCarriers(c.String()); !again.Equal(c) {
			t.Errorf("%q is %v, and written again %v", text, c, again)
		}
	})
}
