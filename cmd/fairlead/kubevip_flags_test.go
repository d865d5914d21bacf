package main

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"fairlead.io/internal/config"
)

// The flags that kube-vip's cloud provider sets for itself or is passed by its
// manifest, and what else it knows of a cloud controller manager's.
func TestFlagsOfKubeVIPsProvider(t *testing.T) {
	c := newControllerCommand()
	err := c.ParseFlags(strings.Fields(`--leader-elect-resource-name=kube-vip-cloud-controller --allow-untagged-cloud=true
		--authentication-skip-lookup=true --cloud-provider=kubevip --OutSideCluster --leader-elect=true
		--leader-elect-lease-duration=15s --leader-elect-renew-deadline=10s --leader-elect-retry-period=2s
		--concurrent-service-syncs=1 --secure-port=10258 --bind-address=0.0.0.0 --v=2 --kube-api-qps=20`))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	logIgnoredFlags(c.Flags(), slog.New(slog.NewTextHandler(&out, nil)), ccmIgnored...)
	if n := strings.Count(out.String(), "\n"); n != 8 {
		t.Errorf("%d lines are told, want one for each of 8 flags:\n%s", n, &out)
	}
}

func TestEnvironmentByFlag(t *testing.T) {
	for _, test := range []struct {
		args, namespace string
		provider        bool
	}{
		{"", "", false},
		{"", "lb", true},
		{"--cloud-provider=kubevip", "", true},
		{"--cloud-provider=kubevip", "lb", true},
		{"--cloud-provider=external", "", false},
	} {
		getenv := parse(t, strings.Fields(test.args)...).environment(func(name string) string {
			return map[string]string{config.EnvKubeVIPNamespace: test.namespace, config.EnvKubeVIPConfigMap: ""}[name]
		})
		c, err := config.FromEnv(getenv)
		if err != nil {
			t.Fatal(err)
		}
		want := config.KubeVIPMap{Namespace: "kube-system", Name: "kubevip"}
		if test.namespace != "" {
			want.Namespace = test.namespace
		}
		if got := config.KubeVIPMapFrom(getenv); got != want {
			t.Errorf("%+v: the ConfigMap is %v", test, got)
		}
		if is := c.Class("").Backend == config.KubeVIP; is != test.provider {
			t.Errorf("%+v: %+v", test, c.Classes)
		}
	}
}

// Nobody leads beside the controller whose place is taken.
func TestLeadership(t *testing.T) {
	ours, cloud := config.Default(), &config.Configuration{Nodes: config.Nodes{Cloud: config.CloudscaleNodes}}
	provider := &config.Configuration{Classes: []config.Class{{Backend: config.KubeVIP}}, Nodes: config.Nodes{Cloud: config.NoCloud}}
	inPod := leadership{elect: true, namespace: "pods"}
	for name, test := range map[string]struct {
		args string
		said leadership
		cfg  *config.Configuration
		file bool
		want leadership
		err  bool
	}{
		"in a pod":                    {cfg: ours, said: inPod, want: leadership{true, "pods", ""}},
		"alone":                       {cfg: ours},
		"asked for":                   {cfg: ours, said: leadership{elect: true}, err: true},
		"elsewhere":                   {args: "--leader-elect-resource-namespace=x --leader-elect-resource-name=y", cfg: ours, said: inPod, want: leadership{true, "x", "y"}},
		"a cloud's manager":           {cfg: cloud, said: inPod, want: leadership{true, "pods", "cloud-controller-manager"}},
		"with a file":                 {cfg: cloud, said: inPod, file: true, want: leadership{true, "pods", ""}},
		"kube-vip's provider":         {cfg: provider, said: inPod, want: leadership{true, "kube-system", "kube-vip-cloud-controller"}},
		"outside of a pod":            {cfg: provider, want: leadership{true, "kube-system", "kube-vip-cloud-controller"}},
		"not asked for":               {args: "--leader-elect=false", cfg: provider, want: leadership{false, "kube-system", "kube-vip-cloud-controller"}},
		"with its own Lease":          {args: "--leader-elect-resource-name=y --leader-elect-resource-namespace=x", cfg: provider, said: inPod, want: leadership{true, "x", "y"}},
		"in a namespace":              {args: "--leader-elect-namespace=x", cfg: provider, said: leadership{elect: true, namespace: "x"}, want: leadership{true, "x", "kube-vip-cloud-controller"}},
		"kube-vip's class and a file": {cfg: provider, said: inPod, file: true, want: leadership{true, "pods", ""}},
	} {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Bool("leader-elect", false, "")
		f.String("leader-elect-namespace", "", "")
		var c ccmFlags
		c.add(f)
		if err := f.Parse(strings.Fields(test.args)); err != nil {
			t.Fatal(err)
		}
		got, err := c.leadership(test.said, test.cfg, test.file)
		if (err != nil) != test.err || err == nil && got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
}

func TestKubeconfigOutside(t *testing.T) {
	if got := parse(t).kubeconfig(""); got != "" {
		t.Error(got)
	}
	if got := parse(t, "--OutSideCluster").kubeconfig(""); !strings.HasSuffix(got, filepath.Join(".kube", "config")) {
		t.Error(got)
	}
	if got := parse(t, "--OutSideCluster").kubeconfig("mine"); got != "mine" {
		t.Error(got)
	}
}

// What the environment says wrong ends the daemons with a sentence about it.
func TestBadEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none.yaml")
	for _, test := range []struct{ args, variable, value, want string }{
		{"controller", config.EnvKubeVIPClassMode, "yes", "$KUBEVIP_ENABLE_LOADBALANCERCLASS is \"yes\", must be true or false"},
		{"controller", "lb_class_only", "yes", "$lb_class_only is \"yes\", must be true or false"},
		{"controller --cloud-provider=kubevip", "lb_class_only", "true", "here kube-vip announces"},
		{"controller --cloud-provider=kubevip --config=" + file, config.EnvKubeVIPClassMode, "true", "no such file"},
		{"agent --node-name=n", "vip_interface", "lo", "announcements on"},
		{"agent --node-name=n", "svc_enable", "false", "agents only serve Services"},
		{"agent --node-name=n", "lb_class_legacy_handling", "x", "$lb_class_legacy_handling is \"x\""},
	} {
		t.Run(test.variable, func(t *testing.T) {
			t.Setenv(test.variable, test.value)
			c := newCommand()
			c.SetArgs(strings.Fields(test.args))
			if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: error %v, want %s", test.args, err, test.want)
			}
		})
	}
}

// The file's classes are not the environment's, and the flag's go before both.
func TestServedClasses(t *testing.T) {
	for _, test := range []struct {
		args    string
		environ []string
		want    string
	}{
		{"", nil, " fairlead.io/fairlead"},
		{"", []string{"lb_class_name=x.io/y"}, " x.io/y"},
		{"", []string{"lb_class_only=true"}, "kube-vip.io/kube-vip-class"},
		{"--lb-class=metallb", []string{"lb_class_name=x.io/y"}, "metallb"},
	} {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		var m metallbFlags
		m.add(f)
		if err := f.Parse(strings.Fields(test.args)); err != nil {
			t.Fatal(err)
		}
		c, err := servedClasses(config.Default(), &m, test.environ)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, class := range c.Classes {
			got = append(got, class.Name)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

func TestIdleVariablesAreTold(t *testing.T) {
	d, err := config.KubeVIPDaemonFrom([]string{"zebra_enable=true", "zebra_url=secret", "vip_leaseduration=5", "svc_election=true"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	tellIdle(d, log)
	tellOverruled(func(name string) string { return map[string]string{config.EnvKubeVIPClassMode: "true"}[name] }, log)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "zebra_enable zebra_url") ||
		!strings.Contains(lines[1], "level=INFO") || !strings.Contains(lines[2], "KUBEVIP_ENABLE_LOADBALANCERCLASS") || strings.Contains(out.String(), "secret") {
		t.Errorf("told:\n%s", &out)
	}
}
