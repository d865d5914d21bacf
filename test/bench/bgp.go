package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// bgpWait is how long a speaker may need for one table.
const bgpWait = 2 * time.Minute

// speakers are built from these directories, gobgp without the tracing of gRPC, which would
// double its binary.
var speakers = []struct{ name, dir string }{{"Fairlead", "test/bench/announce"}, {"gobgp's server", "test/bench/gobgp"}}

// told is what a router sees of a speaker that announces a table.
type told struct {
	start, table    time.Duration // process → OPEN, session → last prefix
	messages, bytes int
	rss             float64 // MiB
}

// bgpTables: what it costs to announce many prefixes to one router, beside gobgp's server.
func bgpTables(ctx context.Context, s settings) (rows []Row, err error) {
	dir, err := os.MkdirTemp("", "fairlead-bench-bgp-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for i, speaker := range speakers {
		build := exec.CommandContext(ctx, "go", "build", "-C", speaker.dir, "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", filepath.Join(dir, strconv.Itoa(i)), ".")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", speaker.dir, err, out)
		}
	}
	for _, n := range []int{s.n, 10 * s.n} {
		seen := make([][]told, len(speakers))
		err := inTurns(s.rounds, len(speakers), func(i int) error {
			t, err := announceTo(filepath.Join(dir, strconv.Itoa(i)), n)
			if err != nil {
				return fmt.Errorf("%s: %w", speakers[i].name, err)
			}
			seen[i] = append(seen[i], t)
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, what := range []struct {
			name, unit string
			of         func(told) float64
		}{
			{"UPDATEs", "", func(t told) float64 { return float64(t.messages) }},
			{"bytes of UPDATEs", "B", func(t told) float64 { return float64(t.bytes) }},
			{"session to last prefix", "ms", func(t told) float64 { return milliseconds(t.table) }},
			{"start to OPEN", "ms", func(t told) float64 { return milliseconds(t.start) }},
			{"memory", "MiB", func(t told) float64 { return t.rss }},
		} {
			var medians []float64
			for i := range speakers {
				var values []float64
				for _, t := range seen[i] {
					values = append(values, what.of(t))
				}
				medians = append(medians, median(values))
			}
			name := fmt.Sprintf("%d prefixes, %s", n, what.name)
			rows = append(rows, info(name+", Fairlead to gobgp's server", medians[0]/medians[1], "×").atMost(1))
			for i, speaker := range speakers {
				rows = append(rows, info(name+", "+speaker.name, medians[i], what.unit))
			}
		}
	}
	return rows, nil
}

// announceTo starts a speaker and is its router.
func announceTo(program string, prefixes int) (t told, err error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return t, err
	}
	defer l.Close()
	p, err := start(program, "-to", l.Addr().String(), "-n", strconv.Itoa(prefixes))
	if err != nil {
		return t, err
	}
	defer p.Stop(&err)
	deadline := time.Now().Add(bgpWait)
	_ = l.SetDeadline(deadline)
	conn, err := l.Accept()
	if err != nil {
		return t, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(deadline)
	if _, err := readMessage(conn, packet.BGP_MSG_OPEN); err != nil {
		return t, err
	}
	t.start = time.Since(p.Started)
	open, err := packet.NewBGPOpenMessage(65001, 90, netip.MustParseAddr("192.0.2.1"), []packet.OptionParameterInterface{
		packet.NewOptionParameterCapability([]packet.ParameterCapabilityInterface{
			packet.NewCapMultiProtocol(packet.RF_IPv4_UC), packet.NewCapRouteRefresh(), packet.NewCapFourOctetASNumber(65001)})})
	if err != nil {
		return t, err
	}
	for _, m := range []*packet.BGPMessage{open, packet.NewBGPKeepAliveMessage()} {
		b, err := m.Serialize()
		if err != nil {
			return t, err
		}
		if _, err := conn.Write(b); err != nil {
			return t, err
		}
	}
	if _, err := readMessage(conn, packet.BGP_MSG_KEEPALIVE); err != nil {
		return t, err
	}
	began := time.Now()
	for had := 0; had < prefixes; {
		b, err := readMessage(conn, packet.BGP_MSG_UPDATE)
		if err != nil {
			return t, fmt.Errorf("after %d prefixes: %w", had, err)
		}
		withdrawn := int(binary.BigEndian.Uint16(b))
		attributes := int(binary.BigEndian.Uint16(b[2+withdrawn:]))
		had += (len(b) - 4 - withdrawn - attributes) / 5 // a /32 has five bytes
		t.messages++
		t.bytes += packet.BGP_HEADER_LENGTH + len(b)
	}
	t.table = time.Since(began)
	t.rss, _, err = p.Memory()
	return t, err
}

// readMessage reads until there is a message of this type, and returns its body.
func readMessage(from io.Reader, kind byte) ([]byte, error) {
	for {
		header := make([]byte, packet.BGP_HEADER_LENGTH)
		if _, err := io.ReadFull(from, header); err != nil {
			return nil, err
		}
		size := int(binary.BigEndian.Uint16(header[16:]))
		if size < packet.BGP_HEADER_LENGTH || size > packet.BGP_MAX_MESSAGE_LENGTH {
			return nil, fmt.Errorf("a message has %d bytes", size)
		}
		body := make([]byte, size-packet.BGP_HEADER_LENGTH)
		if _, err := io.ReadFull(from, body); err != nil {
			return nil, err
		}
		switch header[18] {
		case kind:
			return body, nil
		case packet.BGP_MSG_NOTIFICATION:
			return nil, fmt.Errorf("NOTIFICATION % x", body)
		}
	}
}
