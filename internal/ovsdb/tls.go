package ovsdb

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles are the files of a client's TLS configuration. They are read at every
// connection, so that renewed certificates are used.
type TLSFiles struct{ CA, Certificate, Key string }

// Config reads the files. The server's certificate must be signed by the CA. Its name
// is not compared: the certificates of OVN deployments name no host.
func (f TLSFiles) Config() (*tls.Config, error) {
	if f.CA == "" || f.Certificate == "" || f.Key == "" {
		return nil, errors.New("TLS needs the files of a CA, a certificate and a key")
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read CA: %s has no certificate", f.CA)
	}
	own, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("read certificate and key: %w", err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{own},
		// The standard check compares the name as well; VerifyConnection is called for
		// every connection, and does the rest of it.
		InsecureSkipVerify: true,
		VerifyConnection:   func(state tls.ConnectionState) error { return verify(state, roots) },
	}, nil
}

func verify(state tls.ConnectionState, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server has no certificate")
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(options)
	return err
}
