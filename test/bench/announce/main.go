// Command announce announces prefixes to one router with package bgp, until it is killed. The
// bench compares it with the program in ../gobgp.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"net/netip"
	"os"

	"fairlead.io/internal/bgp"
)

func main() {
	to := flag.String("to", "", "`address` and port of the router")
	n := flag.Int("n", 1000, "`number` of prefixes")
	flag.Parse()
	router, err := netip.ParseAddrPort(*to)
	if err != nil {
		fmt.Fprintln(os.Stderr, "announce:", err)
		os.Exit(1)
	}
	table := bgp.Table{}
	for i := range *n {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], 10<<24|uint32(i))
		table[netip.PrefixFrom(netip.AddrFrom4(b), 32)] = bgp.Attributes{}
	}
	s := bgp.Start(context.Background(), bgp.Config{Network: bgp.Kernel{}})
	s.SetPeers(map[string]bgp.Peer{"router": {
		Address: router.Addr(), Port: router.Port(), LocalAS: 65010, PeerAS: 65001, RouterID: netip.MustParseAddr("192.0.2.11"),
		Hold: bgp.DefaultHold, Keepalive: bgp.DefaultKeepalive,
	}})
	s.Set("router", table)
	s.Wait()
}
