package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fairlead.io/internal/ovsdb"
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
		if _, err := ovsdb.ParseEndpoint(text); err != nil {
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
func (o OVNOptions) Endpoints(getenv func(string) string) ([]ovsdb.Endpoint, error) {
	list, from := strings.Join(o.Northbound, ","), "ovn.northbound"
	if list == "" {
		list, from = cmp.Or(strings.TrimSpace(getenv(EnvNorthbound)), defaultNorthbound), "$"+EnvNorthbound
	}
	out, err := ovsdb.ParseEndpoints(list)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if slices.ContainsFunc(out, func(e ovsdb.Endpoint) bool { return e.TLS }) {
		if _, err := o.Files().Config(); err != nil {
			return nil, fmt.Errorf("ovn.ca, ovn.certificate and ovn.key: %w", err)
		}
	}
	return out, nil
}

// Files are those that endpoints with ssl: need.
func (o OVNOptions) Files() ovsdb.TLSFiles {
	return ovsdb.TLSFiles{CA: o.CA, Certificate: o.Certificate, Key: o.Key}
}
