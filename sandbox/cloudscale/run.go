package cloudscale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"

	"fairlead.io/sandbox/simulator"
)

// Process is a simulator as a program of its own.
type Process struct {
	simulator.Process
	Options
	Subnets []netip.Prefix // of a network "sandbox" in the first zone
	Nodes   []string       // NAME=ADDRESS[,ADDRESS]: servers with a public interface and one in that network
	Forward bool
	Card    string // gets the addresses of load balancers; default: none does
}

// Run runs it until the context ends, and says how to use it.
func (p Process) Run(ctx context.Context, out io.Writer) (err error) {
	if p.Options.Seed == 0 {
		if p.Options.Seed, err = simulator.RandomSeed(); err != nil {
			return err
		}
	}
	token, shell, err := p.Secret()
	if err != nil {
		return err
	}
	p.Options.Token = token
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
	return p.Serve(ctx, s.Front, func(address string) {
		fmt.Fprintf(out, "export CLOUDSCALE_API_URL=http://%s CLOUDSCALE_ACCESS_TOKEN=%s\n", address, shell)
	})
}

func (p *Process) seed(s *Simulator) error {
	if err := p.ReadSeed(s.Seed); err != nil {
		return err
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
