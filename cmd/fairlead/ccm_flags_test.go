package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"fairlead.io/internal/config"
	"fairlead.io/internal/nodes"
)

func parse(t *testing.T, args ...string) *ccmFlags {
	t.Helper()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.String("log-level", "info", "")
	var c ccmFlags
	c.add(f)
	if err := f.Parse(args); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return &c
}

// The flags that cloudscale's manifest passes.
func TestCloudscaleManifest(t *testing.T) {
	c := parse(t, "--allow-untagged-cloud", "--v=3", "--concurrent-service-syncs=2")
	if c.serviceSyncs != 2 {
		t.Errorf("%d Services at the same time", c.serviceSyncs)
	}
	if got := c.level("info"); got != "info" {
		t.Errorf("logs %s", got)
	}
	var out bytes.Buffer
	logIgnoredFlags(c.flags, slog.New(slog.NewTextHandler(&out, nil)), ccmIgnored...)
	if n := strings.Count(out.String(), "\n"); n != 1 || !strings.Contains(out.String(), "--allow-untagged-cloud") {
		t.Errorf("told: %s", &out)
	}
}

func TestIgnoredFlags(t *testing.T) {
	for _, n := range ccmIgnored {
		args := []string{"--" + n.name + "=true"}
		if n.bare {
			args = append(args, "--"+n.name)
		}
		c := parse(t, args...)
		var out bytes.Buffer
		logIgnoredFlags(c.flags, slog.New(slog.NewTextHandler(&out, nil)), ccmIgnored...)
		if !strings.Contains(out.String(), "--"+n.name) || !c.flags.Lookup(n.name).Hidden {
			t.Errorf("%s: told %q", n.name, &out)
		}
	}
}

func TestVerbosity(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "info"}, {[]string{"--v=3"}, "info"}, {[]string{"--v=4"}, "debug"}, {[]string{"-v=10"}, "debug"}, {[]string{"-v", "5", "--log-level=info"}, "info"},
	} {
		if got := parse(t, test.args...).level("info"); got != test.want {
			t.Errorf("%v logs %s, want %s", test.args, got, test.want)
		}
	}
}

func TestChosenControllers(t *testing.T) {
	for _, test := range []struct {
		list, want string
	}{
		{"*", "cloud-node cloud-node-lifecycle service"},
		{"*,-service-lb-controller", "cloud-node cloud-node-lifecycle"},
		{"-service,*", "cloud-node cloud-node-lifecycle"},
		{"*,-cloud-node,-node-route-controller", "cloud-node-lifecycle service"},
		{"cloud-node-lifecycle-controller", "cloud-node-lifecycle"},
		{"*,-volumes", `"-volumes" is unknown`},
	} {
		runs, err := chosen(strings.Split(test.list, ","))
		var got []string
		for _, c := range []string{nodeController, lifecycleController, serviceController} {
			if runs[c] {
				got = append(got, c)
			}
		}
		if err != nil {
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v", test.list, err)
			}
		} else if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s: %s, want %s", test.list, s, test.want)
		}
	}
}

func TestConfigurationByFlags(t *testing.T) {
	ours := &config.Configuration{
		Classes: []config.Class{{Name: "", Backend: config.Cloudscale}, {Name: "lan", Backend: config.Announce}},
		Nodes:   config.Nodes{Cloud: config.CloudscaleNodes},
	}
	for _, test := range []struct {
		args    string
		classes int
		cloud   config.Cloud
		cluster string
		err     string
	}{
		{"", 2, config.CloudscaleNodes, "", ""},
		{"--cloud-provider=cloudscale --cluster-name=prod", 2, config.CloudscaleNodes, "prod", ""},
		{"--cloud-provider external", 2, config.CloudscaleNodes, "", ""},
		{"--cloud-provider=aws", 0, "", "", `--cloud-provider is "aws"`},
		{"--controllers=*,-service", 1, config.CloudscaleNodes, "", ""},
		{"--controllers=service", 2, config.NoCloud, "", ""},
		{"--controllers=*,-cloud-node", 2, config.CloudscaleNodes, "", ""},
		{"--controllers=moon", 0, "", "", `"moon" is unknown`},
	} {
		got, err := parse(t, strings.Fields(test.args)...).configuration(ours)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v", test.args, err)
			}
			continue
		}
		if err != nil || len(got.Classes) != test.classes || got.Nodes.Cloud != test.cloud || got.ClusterName != test.cluster {
			t.Errorf("%s: %+v, %v", test.args, got, err)
		}
	}
	if len(ours.Classes) != 2 || ours.ClusterName != "" {
		t.Errorf("what was given has changed: %+v", ours)
	}
}

func TestNodeFlags(t *testing.T) {
	var got nodes.Options
	parse(t, "--concurrent-node-syncs=7", "--node-monitor-period=2s", "--node-status-update-frequency=1m", "--controllers=*,-cloud-node-lifecycle").nodes(&got)
	want := nodes.Options{Workers: 7, MonitorPeriod: 2 * time.Second, StatusPeriod: time.Minute, NoLifecycle: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzChosenControllers(f *testing.F) {
	f.Add("*,-service")
	f.Add("-,--,**")
	f.Fuzz(func(t *testing.T, list string) {
		runs, err := chosen(strings.Split(list, ","))
		if err == nil && !strings.Contains(list, "*") && len(list) < len("route") && runs[routeController] {
			t.Errorf("%q: %v", list, runs)
		}
	})
}
