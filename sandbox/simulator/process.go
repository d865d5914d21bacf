package simulator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Process is what all simulated clouds have as programs of their own.
type Process struct {
	Listen    string         // where it is reached
	Listeners []net.Listener // further ones
	// TokenFile has the secret that may do everything. Without one a secret is made
	// and printed.
	TokenFile string
	SeedFile  string // what there is at first
}

// Secret returns the secret, and how a shell may be told it: one that was made, as
// it is; one in a file by the file's name, for it is nobody else's business.
func (p *Process) Secret() (token, shell string, err error) {
	if p.TokenFile == "" {
		token = rand.Text()
		return token, token, nil
	}
	raw, err := os.ReadFile(p.TokenFile)
	if err != nil {
		return "", "", fmt.Errorf("read token: %w", err)
	}
	if token = strings.TrimSpace(string(raw)); token == "" {
		return "", "", fmt.Errorf("read token: %s is empty", p.TokenFile)
	}
	return token, "$(cat " + p.TokenFile + ")", nil
}

// ReadSeed hands the seed file to seed, if there is one.
func (p *Process) ReadSeed(seed func([]byte) error) error {
	if p.SeedFile == "" {
		return nil
	}
	raw, err := os.ReadFile(p.SeedFile)
	if err != nil {
		return fmt.Errorf("read seed: %w", err)
	}
	return seed(raw)
}

// RandomSeed is for UUIDs: objects of an earlier run are not to be taken for new
// ones.
func RandomSeed() (uint64, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return 0, err
	}
	return n.Uint64(), nil
}

// Serve answers on all listeners until the context ends. ready is called with the
// address of the API when it can be reached.
func (p *Process) Serve(ctx context.Context, f *Front, ready func(address string)) error {
	listener, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return fmt.Errorf("listen for clients: %w", err)
	}
	ready(listener.Addr().String())
	listeners := append(p.Listeners, listener)
	server := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { ended <- server.Serve(l) }()
	}
	running := len(listeners)
	select {
	case <-ctx.Done():
	case err = <-ended:
		running--
	}
	f.Close() // and so nobody waits
	server.Close()
	for range running {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
