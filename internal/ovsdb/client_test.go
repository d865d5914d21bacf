package ovsdb

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/northbound"
	"fairlead.io/test/kit/process"
)

// nothing is a handler that only counts.
type nothing struct {
	mu    sync.Mutex
	begun int
	ended []error
	// usable: when the rows came, transactions were possible.
	client *Client
	usable bool
}

func (n *nothing) Tables(Schema) (map[string]Monitored, error) {
	return map[string]Monitored{"Logical_Switch": {Columns: []string{"name"}}}, nil
}
func (n *nothing) Begin(Updates) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.begun++; n.client != nil {
		n.usable = n.client.Err() == nil
	}
	return nil
}
func (n *nothing) Update(Updates) error { return nil }
func (n *nothing) End(err error)        { n.mu.Lock(); defer n.mu.Unlock(); n.ended = append(n.ended, err) }
func (n *nothing) times() int           { n.mu.Lock(); defer n.mu.Unlock(); return n.begun }

func start(t *testing.T, files TLSFiles, endpoints ...string) (*Client, *nothing) {
	t.Helper()
	all, err := ParseEndpoints(strings.Join(endpoints, ","))
	if err != nil {
		t.Fatal(err)
	}
	h := &nothing{}
	c := NewClient(Options{Database: "OVN_Northbound", Endpoints: all, TLS: files, Handler: h,
		Log: slog.New(slog.NewTextHandler(process.LogOf(t, "client"), nil))})
	h.client = c
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return c, h
}

// A client without a server says why, at once; one with a server that never answers does
// not wait for ever.
func TestUnavailable(t *testing.T) {
	c, _ := start(t, TLSFiles{}, "unix:"+filepath.Join(t.TempDir(), "none"))
	netns.Eventually(t, time.Minute, "the reason is known", func() bool {
		_, err := c.Transact(t.Context(), Select("Logical_Switch", All(), "name"))
		return errors.Is(err, ErrUnavailable) && strings.Contains(err.Error(), "no such file")
	})
}

// The first of the endpoints that answers as a leader is used. One that accepts and is
// silent is given up.
func TestSeveralEndpoints(t *testing.T) {
	s := northbound.Start(t)
	garbage := filepath.Join(t.TempDir(), "garbage")
	l, err := net.Listen("unix", garbage)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n"))
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	c, h := start(t, TLSFiles{}, "unix:/nonexistent", "unix:"+garbage, s.Endpoint())
	netns.Eventually(t, time.Minute, "connected", func() bool { return h.times() == 1 })
	if _, err := c.Transact(t.Context(), Insert("Logical_Switch", "", Row{"name": "x"})); err != nil || !h.usable {
		t.Errorf("when the rows are there, transactions are not possible: %v", err)
	}
	_, err = c.Transact(t.Context(), Insert("Logical_Switch", "", Row{"nonsense": "x"}))
	if refused, is := errors.AsType[*TransactionError](err); !is || refused.Operation != 0 {
		t.Errorf("a transaction that is wrong: %v", err)
	}
	s.Kill()
	s.Start()
	netns.Eventually(t, time.Minute, "connected again", func() bool { return h.times() == 2 })
}

// A server is accepted if its certificate is of the CA, whatever its name; another is not.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := newCA(t, dir, "ours"), newCA(t, dir, "theirs")
	server, client := ours.issue(t, dir, "server"), ours.issue(t, dir, "client")
	port := freePort(t)
	northbound.Start(t, "pssl:"+port+":127.0.0.1", "--private-key="+server.Key, "--certificate="+server.Certificate, "--ca-cert="+ours.file)
	_, h := start(t, client, "ssl:127.0.0.1:"+port)
	netns.Eventually(t, time.Minute, "connected", func() bool { return h.times() == 1 })

	wrong := client
	wrong.CA = theirs.file
	c, refusing := start(t, wrong, "ssl:127.0.0.1:"+port)
	netns.Eventually(t, time.Minute, "the server is refused", func() bool {
		_, err := c.Transact(t.Context(), Select("Logical_Switch", All(), "name"))
		return err != nil && strings.Contains(err.Error(), "certificate signed by unknown authority")
	})
	if refusing.times() != 0 {
		t.Error("connected to a server of another CA")
	}
	for _, f := range []TLSFiles{{}, {CA: "/nonexistent", Certificate: client.Certificate, Key: client.Key}, {CA: client.Key, Certificate: client.Certificate, Key: client.Key}, {CA: client.CA, Certificate: client.Certificate, Key: client.CA}} {
		if _, err := f.Config(); err == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

type authority struct {
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newCA(t *testing.T, dir, name string) authority {
	t.Helper()
	a := authority{file: filepath.Join(dir, name+".pem"), key: newKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	write(t, a.file, "CERTIFICATE", der)
	return a
}

// issue makes a certificate as kube-ovn has it: CN ovn, and no other name.
func (a authority) issue(t *testing.T, dir, name string) TLSFiles {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "ovn"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	f := TLSFiles{CA: a.file, Certificate: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")}
	write(t, f.Certificate, "CERTIFICATE", der)
	write(t, f.Key, "EC PRIVATE KEY", raw)
	return f
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func write(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
