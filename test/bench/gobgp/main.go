// Command gobgp announces prefixes to one router with gobgp's server, until it is killed. The
// bench compares it with what package bgp does. It is a module of its own, so that the server's
// dependencies are not ours.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
)

func main() {
	to := flag.String("to", "", "`address` and port of the router")
	n := flag.Int("n", 1000, "`number` of prefixes")
	flag.Parse()
	if err := announce(context.Background(), *to, *n); err != nil {
		fmt.Fprintln(os.Stderr, "gobgp:", err)
		os.Exit(1)
	}
	select {}
}

func announce(ctx context.Context, to string, n int) error {
	router, err := netip.ParseAddrPort(to)
	if err != nil {
		return err
	}
	s := server.NewBgpServer(server.LoggerOption(slog.New(slog.NewTextHandler(io.Discard, nil)), &slog.LevelVar{}))
	go s.Serve()
	if err := s.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{Asn: 65010, RouterId: "192.0.2.11", ListenPort: -1}}); err != nil {
		return err
	}
	hop, err := bgp.NewPathAttributeNextHop(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		return err
	}
	attributes := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_IGP), hop}
	paths := make([]*apiutil.Path, n)
	for i := range paths {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], 10<<24|uint32(i))
		nlri, err := bgp.NewIPAddrPrefix(netip.PrefixFrom(netip.AddrFrom4(b), 32))
		if err != nil {
			return err
		}
		paths[i] = &apiutil.Path{Family: bgp.RF_IPv4_UC, Nlri: nlri, Attrs: attributes}
	}
	if _, err := s.AddPath(apiutil.AddPathRequest{Paths: paths}); err != nil {
		return err
	}
	return s.AddPeer(ctx, &api.AddPeerRequest{Peer: &api.Peer{
		Conf:      &api.PeerConf{NeighborAddress: router.Addr().String(), PeerAsn: 65001},
		Transport: &api.Transport{RemotePort: uint32(router.Port())},
		Timers:    &api.Timers{Config: &api.TimersConfig{ConnectRetry: 1, IdleHoldTimeAfterReset: 1}},
	}})
}
