package sandbox

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// pki is a certificate authority that keeps its files in one directory, under
// the names that "kube control-plane --pki" expects.
type pki struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newPKI makes a certificate authority in dir and the key that signs service
// account tokens.
func newPKI(dir string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make PKI directory: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate CA key: %w", err)
	}
	p := &pki{dir: dir, key: key}
	template := certificateTemplate(pkix.Name{CommonName: "fairlead-sandbox-ca"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	p.cert = template
	if p.cert, err = p.sign("ca", template, key); err != nil {
		return nil, err
	}
	serviceAccounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate service account key: %w", err)
	}
	return p, p.writeKey("sa.key", serviceAccounts)
}

// server makes NAME.crt and NAME.key for a server with these names and
// addresses.
func (p *pki) server(name string, dns []string, addresses ...netip.Addr) error {
	template := certificateTemplate(pkix.Name{CommonName: name})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = dns
	for _, a := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(a.AsSlice()))
	}
	return p.issue(name, template)
}

// client makes NAME.crt and NAME.key for a user of the API server, or of a
// kubelet.
func (p *pki) client(name, user string, groups ...string) error {
	template := certificateTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return p.issue(name, template)
}

// kubeconfig writes a self-contained kubeconfig to path for the client
// certificate NAME.
func (p *pki) kubeconfig(name, path, server string) error {
	ca, err := os.ReadFile(p.file("ca.crt"))
	if err != nil {
		return err
	}
	cert, err := os.ReadFile(p.file(name + ".crt"))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(p.file(name + ".key"))
	if err != nil {
		return err
	}
	const cluster = "sandbox"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: name}
	config.CurrentContext = cluster
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// controlPlane makes everything "kube control-plane --pki" expects, and the
// client "admin". Its components call the API server at loopback.
func (p *pki) controlPlane(port uint16, addresses ...netip.Addr) error {
	loopback := netip.MustParseAddr("127.0.0.1")
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if err := p.server("apiserver", names, append(addresses, loopback, netip.IPv6Loopback())...); err != nil {
		return err
	}
	const masters = "system:masters"
	for _, c := range []struct{ name, user, group string }{
		{"apiserver-kubelet", "kube-apiserver", masters},
		{"admin", "admin", masters},
		// One identity for all controllers instead of a service account each:
		// the controllers start seconds earlier.
		{"controller-manager", "system:kube-controller-manager", masters},
		{"scheduler", "system:kube-scheduler", masters},
	} {
		if err := p.client(c.name, c.user, c.group); err != nil {
			return err
		}
	}
	server := "https://" + netip.AddrPortFrom(loopback, port).String()
	for _, name := range []string{"controller-manager", "scheduler"} {
		if err := p.kubeconfig(name, p.file(name+".kubeconfig"), server); err != nil {
			return err
		}
	}
	return nil
}

func (p *pki) file(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) issue(name string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate key of %s: %w", name, err)
	}
	_, err = p.sign(name, template, key)
	return err
}

func (p *pki) sign(name string, template *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("choose serial number of %s: %w", name, err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, p.cert, &key.PublicKey, p.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %s: %w", name, err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(p.file(name+".crt"), block, 0o644); err != nil {
		return nil, fmt.Errorf("write certificate: %w", err)
	}
	if err := p.writeKey(name+".key", key); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func (p *pki) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(p.file(name), block, 0o600); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return nil
}

func certificateTemplate(subject pkix.Name) *x509.Certificate {
	return &x509.Certificate{
		Subject: subject,
		// Clocks of machines that share a home directory differ a little.
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().AddDate(1, 0, 0),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}
