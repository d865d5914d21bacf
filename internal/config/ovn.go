package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// EIpMode says who serves kube-dc's EIps.
type EIpMode string

const (
	// ServeEIps: Fairlead does.
	ServeEIps EIpMode = "serve"
	// UseEIps: kube-dc's manager does.
	UseEIps EIpMode = "use"
)

var eipModes = []EIpMode{ServeEIps, UseEIps}

// EnvNorthbound has the endpoints of the northbound database, as OVN's own tools read it.
const EnvNorthbound = "OVN_NB_DB"

// defaultNorthbound is where kube-ovn has it.
const defaultNorthbound = "tcp:ovn-nb.kube-system.svc:6641"

func (o OVNOptions) validate() (errs []error) {
	for i, text := range o.Northbound {
		if err := checkEndpoint(text); err != nil {
			errs = append(errs, fmt.Errorf("ovn.northbound[%d]: %w", i, err))
		}
	}
	if (o.Certificate == "") != (o.Key == "") {
		errs = append(errs, errors.New("ovn.certificate and ovn.key belong together; one of them is missing"))
	}
	if o.EIps != "" && !slices.Contains(eipModes, o.EIps) {
		errs = append(errs, fmt.Errorf("ovn.eips %q is unknown; available: %s", o.EIps, join(eipModes)))
	}
	return errs
}

// Endpoints of the northbound database: those of the file, else those of the environment,
// else kube-ovn's.
func (o OVNOptions) Endpoints(getenv func(string) string) ([]string, error) {
	out, from := slices.Clone(o.Northbound), "ovn.northbound"
	if len(out) == 0 {
		out, from = strings.Split(getenv(EnvNorthbound), ","), "$"+EnvNorthbound
		if strings.TrimSpace(getenv(EnvNorthbound)) == "" {
			out = []string{defaultNorthbound}
		}
	}
	secure := false
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
		if err := checkEndpoint(out[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		secure = secure || strings.HasPrefix(out[i], "ssl:")
	}
	if secure {
		if err := o.checkFiles(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// checkEndpoint says what is wrong with an endpoint.
func checkEndpoint(text string) error {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(text), ":")
	switch scheme {
	case "unix":
		if !filepath.IsAbs(rest) {
			return fmt.Errorf("%q: the path of a unix socket must be absolute", text)
		}
	case "tcp", "ssl":
		host, port, err := net.SplitHostPort(rest)
		if err != nil || host == "" || strings.ContainsAny(host, " ,/") {
			return fmt.Errorf("%q is not %s:HOST:PORT", text, scheme)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%q: %q is not a port", text, port)
		}
	default:
		return fmt.Errorf("%q must begin with unix:, tcp: or ssl: and does not", text)
	}
	return nil
}

// checkFiles reads the files that endpoints with ssl: need.
func (o OVNOptions) checkFiles() error {
	if o.CA == "" || o.Certificate == "" || o.Key == "" {
		return errors.New("endpoints of the northbound database with ssl: need ovn.ca, ovn.certificate and ovn.key")
	}
	ca, err := os.ReadFile(o.CA)
	if err != nil {
		return fmt.Errorf("ovn.ca: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return fmt.Errorf("ovn.ca: %s has no certificate", o.CA)
	}
	if _, err := tls.LoadX509KeyPair(o.Certificate, o.Key); err != nil {
		return fmt.Errorf("ovn.certificate and ovn.key: %w", err)
	}
	return nil
}
