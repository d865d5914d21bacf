package cloudsigma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"fairlead.io/sandbox/simulator"
)

// Process is a simulator as a program of its own.
type Process struct {
	simulator.Process
	Options
	Nodes      []string // NAME=ADDRESS or NAME=MODE: servers with one public card
	Subscribed []string // addresses
	NICs       string   // mode of the cards in the seed that have none; default dhcp
	// Enforce, if it is not nil, makes the firewalls real until the context ends.
	Enforce func(ctx context.Context, s *Simulator) error
}

// Run runs it until the context ends, and says how to use it.
func (p Process) Run(ctx context.Context, out io.Writer) (err error) {
	if err := p.Knobs.Check(); err != nil {
		return err
	}
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	enforced := make(chan struct{})
	go func() {
		defer close(enforced)
		if p.Enforce == nil {
			return
		}
		if err := p.Enforce(ctx, s); err != nil {
			cancel(err)
		}
	}()
	err = p.Serve(ctx, s.Front, func(address string) {
		fmt.Fprintf(out, "export CLOUDSIGMA_API_ENDPOINT=http://%s/api/2.0 CLOUDSIGMA_REGION=zrh CLOUDSIGMA_TOKEN=%s\n", address, shell)
		fmt.Fprintf(out, "# or by OAuth: CLOUDSIGMA_OAUTH_URL=http://%s CLOUDSIGMA_CLIENT_ID=%s CLOUDSIGMA_CLIENT_SECRET=%s CLOUDSIGMA_USER_EMAIL=%s\n", address, s.options.ClientID, shell, s.options.Email)
	})
	if err == nil {
		if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
			err = cause
		}
	}
	cancel(nil)
	<-enforced
	return err
}

func (p *Process) seed(s *Simulator) error {
	if err := p.ReadSeed(func(raw []byte) error { return s.seed(raw, cmp.Or(p.NICs, dhcp)) }); err != nil {
		return err
	}
	for _, text := range p.Subscribed {
		addr, ok := parseAddr(text)
		if !ok {
			return fmt.Errorf("subscribed %q: want an address", text)
		}
		s.Subscribe(addr)
	}
	for _, node := range p.Nodes {
		name, how, ok := strings.Cut(node, "=")
		if !ok || name == "" {
			return fmt.Errorf("node %q: want NAME=ADDRESS, NAME=dhcp or NAME=manual", node)
		}
		card := NewNIC{Mode: how, Addr4: "*"}
		if addr, err := netip.ParseAddr(how); err == nil {
			card = NewNIC{Mode: dhcp, Addr4: addr.String()}
		}
		if _, err := s.AddServer(NewServer{Name: name, NICs: []NewNIC{card}}); err != nil {
			return err
		}
	}
	return nil
}
