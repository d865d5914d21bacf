package cloudscale

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"
)

// Process is a simulator as a program of its own.
type Process struct {
	Options
	Listen    string         // where it is reached
	Listeners []net.Listener // further ones
	// TokenFile has the token. Without one a token is made and printed.
	TokenFile string
	SeedFile  string         // see [Simulator.Seed]
	Subnets   []netip.Prefix // of a network "sandbox" in the first zone
	Nodes     []string       // NAME=ADDRESS[,ADDRESS]: servers with a public interface and one in that network
	Forward   bool
	Card      string // gets the addresses of load balancers; default: none does
}

// Run runs it until the context ends, and tells how to use it.
func (p Process) Run(ctx context.Context, out io.Writer) error {
	made, err := p.complete()
	if err != nil {
		return err
	}
	s := New(p.Options)
	defer s.Close()
	if err := p.seed(s); err != nil {
		return err
	}
	if p.Forward {
		o := ForwardOptions{Log: slog.New(slog.NewTextHandler(out, nil))}
		if p.Card != "" {
			if o.Card, err = FindCard(p.Card); err != nil {
				return err
			}
		}
		defer s.Forward(o).Close()
	}
	listener, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return fmt.Errorf("listen for clients: %w", err)
	}
	token := p.Token
	if !made {
		token = "$(cat " + p.TokenFile + ")" // it is nobody else's business
	}
	fmt.Fprintf(out, "export CLOUDSCALE_API_URL=http://%s CLOUDSCALE_ACCESS_TOKEN=%s\n", listener.Addr(), token)
	return serve(ctx, s, append(p.Listeners, listener))
}

// complete fills in what was not said, and reports whether a token was made.
func (p *Process) complete() (made bool, err error) {
	if p.Seed == 0 { // objects of an earlier run are not to be taken for new ones
		n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
		if err != nil {
			return false, err
		}
		p.Seed = n.Uint64()
	}
	if p.TokenFile == "" {
		p.Token = rand.Text()
		return true, nil
	}
	raw, err := os.ReadFile(p.TokenFile)
	if err != nil {
		return false, fmt.Errorf("read token: %w", err)
	}
	if p.Token = strings.TrimSpace(string(raw)); p.Token == "" {
		return false, fmt.Errorf("read token: %s is empty", p.TokenFile)
	}
	return false, nil
}

func (p *Process) seed(s *Simulator) error {
	if p.SeedFile != "" {
		raw, err := os.ReadFile(p.SeedFile)
		if err != nil {
			return fmt.Errorf("read seed: %w", err)
		}
		if err := s.Seed(raw); err != nil {
			return err
		}
	}
	if len(p.Subnets) == 0 {
		if len(p.Nodes) > 0 {
			return errors.New("nodes need a subnet")
		}
		return nil
	}
	network := s.AddNetwork(Network{Name: "sandbox"})
	var first string
	for _, cidr := range p.Subnets {
		if subnet := s.AddSubnet(Subnet{Network: network.UUID, CIDR: cidr.Masked()}); first == "" {
			first = subnet.UUID
		}
	}
	for _, node := range p.Nodes {
		name, list, ok := strings.Cut(node, "=")
		if !ok || name == "" {
			return fmt.Errorf("node %q: want NAME=ADDRESS[,ADDRESS]", node)
		}
		var addresses []netip.Addr
		for text := range strings.SplitSeq(list, ",") {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return fmt.Errorf("node %q: %w", node, err)
			}
			addresses = append(addresses, a)
		}
		s.AddNode(name, network.Zone, first, addresses...)
	}
	return nil
}

// serve answers on all listeners until the context ends.
func serve(ctx context.Context, s *Simulator, listeners []net.Listener) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { ended <- server.Serve(l) }()
	}
	var err error
	running := len(listeners)
	select {
	case <-ctx.Done():
	case err = <-ended:
		running--
	}
	s.Close() // and so nobody waits
	server.Close()
	for range running {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
