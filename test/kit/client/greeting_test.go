package client

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"fairlead.io/test/kit/netns"
)

// A packet of the handshake that is lost is an error, whoever makes up for it; one that
// is late is none.
func TestLostPacketsAreTold(t *testing.T) {
	const first = " limit rate 1/hour burst 1 packets drop" // and none of those that follow
	for name, test := range map[string]struct {
		rule  string // for packets that arrive at the server, or leave it
		fails bool
	}{
		"none":               {"", false},
		"first packet":       {"input tcp flags == syn" + first, true},
		"the answer":         {"output tcp flags == (syn | ack)" + first, true},
		"the answer to that": {"input tcp flags == ack" + first, true},
		"all":                {"input tcp flags == syn drop", true},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := netns.New(t, "server"), netns.New(t, "client")
			netns.Cable(netns.Plug{NS: server, Interface: "eth0", Addresses: []string{"192.0.2.1/24"}},
				netns.Plug{NS: client, Interface: "eth0", Addresses: []string{"192.0.2.2/24"}})
			to := netip.MustParseAddrPort("192.0.2.1:80")
			var l net.Listener
			var err error
			server.Do(func() { l, err = net.Listen("tcp", to.String()) })
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go Serve(l)
			if test.rule != "" {
				server.Run("nft", "add table ip lab; add chain ip lab input { type filter hook input priority 0; }; add chain ip lab output { type filter hook output priority 0; }")
				server.Run("nft", "add rule ip lab "+test.rule)
			}
			err = greet(t.Context(), func(ctx context.Context, d *net.Dialer) (conn net.Conn, err error) {
				client.Do(func() { conn, err = d.DialContext(ctx, "tcp", to.String()) })
				return conn, err
			}, to)
			if t.Logf("%v", err); (err != nil) != test.fails {
				t.Errorf("%v", err)
			}
		})
	}
}
