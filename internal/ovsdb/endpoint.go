package ovsdb

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// Endpoint is where a server listens.
type Endpoint struct {
	Network string // "unix" or "tcp"
	Address string // a path, or host:port
	TLS     bool
}

// ParseEndpoint reads unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, as OVN writes them. An
// IPv6 address is in brackets.
func ParseEndpoint(text string) (Endpoint, error) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(text), ":")
	switch scheme {
	case "unix":
		if !filepath.IsAbs(rest) {
			return Endpoint{}, fmt.Errorf("endpoint %q: the path of a unix socket must be absolute", text)
		}
		return Endpoint{Network: "unix", Address: rest}, nil
	case "tcp", "ssl":
		host, port, err := net.SplitHostPort(rest)
		if err != nil || host == "" || strings.ContainsAny(host, " ,/") {
			return Endpoint{}, fmt.Errorf("endpoint %q is not %s:HOST:PORT", text, scheme)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return Endpoint{}, fmt.Errorf("endpoint %q: %q is not a port", text, port)
		}
		return Endpoint{Network: "tcp", Address: net.JoinHostPort(host, port), TLS: scheme == "ssl"}, nil
	default:
		return Endpoint{}, fmt.Errorf("endpoint %q is not of the kind unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT", text)
	}
}

// ParseEndpoints reads a list that is separated by commas, as OVN_NB_DB has it.
func ParseEndpoints(text string) ([]Endpoint, error) {
	var out []Endpoint
	for one := range strings.SplitSeq(text, ",") {
		e, err := ParseEndpoint(one)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (e Endpoint) String() string {
	switch {
	case e.TLS:
		return "ssl:" + e.Address
	default:
		return e.Network + ":" + e.Address
	}
}

// dial connects, with TLS if the endpoint asks for it.
func (e Endpoint) dial(ctx context.Context, files TLSFiles) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, e.Network, e.Address)
	if err != nil || !e.TLS {
		return conn, err
	}
	config, err := files.Config()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}
