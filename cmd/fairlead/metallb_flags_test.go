package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/config"
)

// Everything that the manifests of MetalLB's speaker pass, and the flags that
// they do not.
var speakerFlags = strings.Fields(`
	--bgp-debounce-timeout=3000 --namespace=metallb-system --host=192.0.2.1 --ml-bindaddr=192.0.2.1 --ml-bindport=7946
	--ml-labels=app=metallb --ml-secret-key-path=/etc/ml_secret_key --ml-wan-config --node-name=n1 --pod-name=speaker-x
	--port=7472 --log-level=all --pprof-bind-address=:6060 --health-probe-port=17472 --lb-class=metallb --ignore-exclude-lb
	--frrk8s-namespace=frr --frrk8s-secret-passthrough --tls-min-version=VersionTLS13 --tls-cipher-suites=a,b
	--tls-curve-preferences=X25519 --metrics-cert-dir=/certs --gratuitous-arp-interval=30 --kubeconfig=/none`)

// The same of MetalLB's controller.
var controllerFlags = strings.Fields(`
	--port=7472 --namespace=metallb-system --ml-secret-name=memberlist --deployment=controller --log-level=none
	--pprof-bind-address=:6060 --health-probe-port=17472 --disable-cert-rotation --cert-dir=/certs
	--cert-service-name=metallb-webhook-service --lb-class= --webhook-mode=enabled --webhook-secret=metallb-webhook-cert
	--pod-name=controller-x --webhook-http2=false --tls-min-version=VersionTLS13 --tls-cipher-suites=a,b
	--tls-curve-preferences=X25519 --metrics-cert-dir=/certs --kubeconfig=/none`)

func TestAllFlagsOfMetalLBAreTaken(t *testing.T) {
	for _, daemon := range []struct {
		command func() *cobra.Command
		flags   []string
		ignored []ignoredFlag
	}{
		{newAgentCommand, speakerFlags, ignoredByAgent},
		{newControllerCommand, controllerFlags, ignoredByController},
	} {
		c := daemon.command()
		if err := c.ParseFlags(daemon.flags); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		logIgnoredFlags(c.Flags(), slog.New(slog.NewJSONHandler(&log, nil)), daemon.ignored...)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != len(daemon.ignored) {
			t.Errorf("%s: %d lines for %d flags:\n%s", c.Name(), len(lines), len(daemon.ignored), log.String())
		}
		for _, n := range daemon.ignored {
			if strings.Count(log.String(), fmt.Sprintf(`"flag":"--%s"`, n.name)) != 1 {
				t.Errorf("%s: --%s is not told of once:\n%s", c.Name(), n.name, log.String())
			}
			if strings.Contains(c.UsageString(), "--"+n.name) {
				t.Errorf("%s: --%s is in the help", c.Name(), n.name)
			}
		}
		log.Reset()
		if logIgnoredFlags(daemon.command().Flags(), slog.New(slog.NewJSONHandler(&log, nil)), daemon.ignored...); log.Len() > 0 {
			t.Errorf("%s: flags that were not given are told of: %s", c.Name(), log.String())
		}
	}
}

func TestMetalLBFlags(t *testing.T) {
	t.Setenv("METALLB_NAMESPACE", "lb")
	for _, test := range []struct {
		args            string
		metrics, health string
		namespace       string
		classes         int
		wantErr         string
	}{
		{args: "", metrics: "m:1", health: "h:1", namespace: "lb", classes: 2},
		{args: "--port=7472 --health-probe-port=17472 --lb-class=metallb --metallb-namespace=x", metrics: ":7472", health: "127.0.0.1:17472", namespace: "x", classes: 1},
		{args: "--port=0 --lb-class=", metrics: "", health: "h:1", namespace: "lb", classes: 1},
		{args: "--port=1 --metrics-address=:2", wantErr: "--port and --metrics-address cannot be combined"},
		{args: "--health-probe-port=1 --health-address=:2", wantErr: "--health-probe-port and --health-address cannot be combined"},
	} {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		var m metallbFlags
		m.add(f)
		f.String("metrics-address", "m:1", "")
		f.String("health-address", "h:1", "")
		if err := f.Parse(strings.Fields(test.args)); err != nil {
			t.Fatal(err)
		}
		metrics, err := m.metrics("m:1")
		health, err2 := m.health("h:1", "127.0.0.1")
		if err == nil {
			err = err2
		}
		if test.wantErr != "" {
			if err == nil || err.Error() != test.wantErr {
				t.Errorf("%s: error %v, want %s", test.args, err, test.wantErr)
			}
			continue
		}
		c, err := servedClasses(config.Default(), &m, nil)
		if err != nil || metrics != test.metrics || health != test.health || m.namespace != test.namespace || len(c.Classes) != test.classes {
			t.Errorf("%s: metrics %q, health %q, namespace %q, classes %v, error %v", test.args, metrics, health, m.namespace, c.Classes, err)
		}
		if test.classes == 1 && !c.Uses(metallb.Name) {
			t.Errorf("%s: pools of MetalLB's kinds are not used", test.args)
		}
	}
}

func TestRefresh(t *testing.T) {
	for _, test := range []struct {
		flag, variable string
		others         time.Duration
		want           time.Duration
		fails          bool
	}{
		{want: 0},
		{flag: "30", want: 30 * time.Second},
		{flag: "1m30s", want: 90 * time.Second},
		{flag: "0", variable: "20", others: time.Second, want: 0},
		{others: 3 * time.Second, want: 3 * time.Second},
		{variable: "20", others: 3 * time.Second, want: 20 * time.Second},
		{variable: "20", want: 20 * time.Second},
		{variable: "-1", fails: true},
		{variable: "soon", fails: true},
		{flag: "-1", fails: true},
		{flag: "-1s", fails: true},
		{flag: "soon", fails: true},
	} {
		t.Setenv(refreshVariable, test.variable)
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		var s seconds
		f.Var(&s, "gratuitous-arp-interval", "")
		var err error
		if test.flag != "" {
			err = f.Parse([]string{"--gratuitous-arp-interval=" + test.flag})
		}
		var got time.Duration
		if err == nil {
			got, err = refreshOf(f, s, test.others)
		}
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("flag %q, variable %q: %s, %v", test.flag, test.variable, got, err)
		}
	}
}

func TestLogLevels(t *testing.T) {
	for name, want := range map[string]string{"all": "DEBUG", "debug": "DEBUG", "info": "INFO", "warn": "WARN", "error": "ERROR"} {
		if level, err := levelOf(name); err != nil || level.String() != want {
			t.Errorf("%s: %s, %v", name, level, err)
		}
	}
	if level, err := levelOf("none"); err != nil || level <= slog.LevelError {
		t.Errorf("none: %s, %v", level, err)
	}
	if _, err := levelOf("loud"); err == nil {
		t.Error("loud is a level")
	}
}
