package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// defaultMetalLBNamespace is where MetalLB's own manifests put its objects.
const defaultMetalLBNamespace = "metallb-system"

// ignoredFlag is a flag of a program that Fairlead stands in for, with nothing to set here.
// Manifests that pass it go on working; it is not shown in the help.
type ignoredFlag struct {
	name string
	why  string // the end of a sentence that begins with the flag
	bare bool   // may stand without a value
}

// Flags of both of MetalLB's processes without a use here.
var ignoredEverywhere = []ignoredFlag{
	{name: "pod-name", why: "$POD_NAME and $POD_UID identify the pod"},
	{name: "pprof-bind-address", why: "there is no profiling over the network"},
	{name: "tls-min-version", why: "the minimum TLS version is 1.2"},
	{name: "tls-cipher-suites", why: "the default cipher suites of Go are used"},
	{name: "tls-curve-preferences", why: "the default curves of Go are used"},
	{name: "metrics-cert-dir", why: "the certificate for the metrics is generated at start"},
}

// Flags of MetalLB's speaker besides these.
var ignoredByAgent = append([]ignoredFlag{
	{name: "bgp-debounce-timeout", why: "routers are told at once"},
	{name: "frrk8s-namespace", why: "agents have the sessions themselves, without FRR"},
	{name: "frrk8s-secret-passthrough", why: "agents have the sessions themselves, without FRR", bare: true},
	{name: "host", why: "MetalLB does not use it either"},
	{name: "ml-bindaddr", why: "agents use the address of their node"},
	{name: "ml-bindport", why: "agents have their own port (--gossip-port), to run alongside MetalLB's speakers"},
	{name: "ml-labels", why: "agents find each other by their Agent objects"},
	{name: "ml-secret-key-path", why: "agents read their key from their own Secret"},
	{name: "ml-wan-config", why: "agents adapt to slow networks automatically", bare: true},
}, ignoredEverywhere...)

// Flags of MetalLB's controller besides these.
var ignoredByController = append([]ignoredFlag{
	{name: "ml-secret-name", why: "agents have their own Secret, which the controller fills"},
	{name: "deployment", why: "no object is owned by a Deployment"},
	{name: "webhook-mode", why: "there is no webhook; conditions on the objects report errors"},
	{name: "webhook-secret", why: "there is no webhook"},
	{name: "webhook-http2", why: "there is no webhook", bare: true},
	{name: "cert-dir", why: "there is no webhook"},
	{name: "cert-service-name", why: "there is no webhook"},
	{name: "disable-cert-rotation", why: "there is no webhook", bare: true},
}, ignoredEverywhere...)

// addIgnoredFlags has f take the flags of table.
func addIgnoredFlags(f *pflag.FlagSet, table ...ignoredFlag) {
	for _, n := range table {
		if f.Lookup(n.name) != nil {
			continue // of another program, too
		}
		f.String(n.name, "", "ignored: "+n.why)
		flag := f.Lookup(n.name)
		flag.Hidden = true
		if n.bare {
			flag.NoOptDefVal = "true"
		}
	}
}

// logIgnoredFlags logs a line for each flag of table that was given.
func logIgnoredFlags(f *pflag.FlagSet, log *slog.Logger, table ...ignoredFlag) {
	for _, n := range table {
		if f.Changed(n.name) {
			log.Info("flag is not needed and has no effect: "+n.why, "flag", "--"+n.name)
		}
	}
}

// metallbFlags are those flags of MetalLB's processes that mean the same in both
// daemons.
type metallbFlags struct {
	flags       *pflag.FlagSet
	class       string
	namespace   string
	metricsPort uint16
	healthPort  uint16
}

func (m *metallbFlags) add(f *pflag.FlagSet) {
	m.flags = f
	f.StringVar(&m.class, "lb-class", "", "serve only Services of this spec.loadBalancerClass, from IPAddressPools and Pools, instead of the classes of the configuration; those with backend ovn stay")
	f.StringVar(&m.namespace, "metallb-namespace", env("METALLB_NAMESPACE", defaultMetalLBNamespace), "namespace of MetalLB's objects; those in other namespaces have no effect; $METALLB_NAMESPACE sets the default")
	f.Uint16Var(&m.metricsPort, "port", 0, "port for /metrics, on all addresses of the machine, instead of --metrics-address; 0 disables metrics")
	f.Uint16Var(&m.healthPort, "health-probe-port", 0, "port for /healthz and /readyz, instead of --health-address")
}

// metrics returns where to answer /metrics, "" for nowhere.
func (m *metallbFlags) metrics(address string) (string, error) {
	switch {
	case !m.flags.Changed("port"):
		return address, nil
	case m.flags.Changed("metrics-address"):
		return "", fmt.Errorf("--port and --metrics-address cannot be combined")
	case m.metricsPort == 0:
		return "", nil
	}
	return at("", m.metricsPort), nil
}

// health returns where to answer health checks: with --health-probe-port on host.
func (m *metallbFlags) health(address, host string) (string, error) {
	switch {
	case !m.flags.Changed("health-probe-port"):
		return address, nil
	case m.flags.Changed("health-address"):
		return "", fmt.Errorf("--health-probe-port and --health-address cannot be combined")
	}
	return at(host, m.healthPort), nil
}

func at(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// env returns the environment variable of the name, or other if it is not set.
func env(name, other string) string { return cmp.Or(os.Getenv(name), other) }

// seconds is a duration that may also be written as a number of seconds.
type seconds time.Duration

func (s *seconds) String() string {
	if *s == 0 {
		return "0"
	}
	return time.Duration(*s).String()
}

// Type is how the flag is shown.
func (*seconds) Type() string { return "seconds" }

// Set reads text.
func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, notNumber := strconv.ParseUint(text, 10, 31); notNumber == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < 0 {
		return fmt.Errorf("%q must be a number of seconds or a duration", text)
	}
	*s = seconds(d)
	return nil
}
