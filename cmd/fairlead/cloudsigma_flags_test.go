package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"fairlead.io/internal/cloudsigma"
	"fairlead.io/internal/config"
)

// parseSigma reads flags as the controller does.
func parseSigma(t *testing.T, args ...string) *cloudsigmaFlags {
	t.Helper()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"kubeconfig", "metrics-address", "health-address"} {
		f.String(name, "", "")
	}
	var c cloudsigmaFlags
	c.add(f)
	if err := f.Parse(args); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return &c
}

// What the original, and the document about it, are started with; and what ends the
// start with a sentence.
func TestCloudSigmaStart(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const oauth = "--oauth-url=https://auth.example.com --client-id=ccm --client-secret=s3cret "
	for name, test := range map[string]struct {
		args string
		env  map[string]string
		way  string // how it authenticates
		want string // in the error
	}{
		"the original's flags":        {args: "--cloudsigma-region=zrh --user-email=me@example.com " + oauth, way: "OAuth as me@example.com"},
		"the document's names":        {args: "--region=next --user-email=me@example.com", env: map[string]string{"CS_OAUTH_URL": "https://auth.example.com", "CLOUDSIGMA_CLIENT_ID": "ccm", "CLOUDSIGMA_CLIENT_SECRET": "s3cret"}, way: "OAuth as me@example.com"},
		"a secret in a file":          {args: "--region=zrh", env: map[string]string{"CLOUDSIGMA_USERNAME": "me@example.com", "CLOUDSIGMA_PASSWORD_FILE": secret}, way: "user me@example.com"},
		"a token":                     {env: map[string]string{"CLOUDSIGMA_REGION": "zrh", "CLOUDSIGMA_TOKEN": "t0ken"}, way: "token ****"},
		"legacy where there is OAuth": {args: oauth + "--region=zrh --user-email=me@example.com --enable-legacy-credentials --cloudsigma-username=old@example.com --cloudsigma-password=p", way: "user old@example.com"},
		"OAuth counts more":           {args: oauth + "--region=zrh --user-email=me@example.com --cloudsigma-username=old@example.com --cloudsigma-password=p", way: "OAuth as me@example.com"},
		"flags count more":            {args: "--region=zrh", env: map[string]string{"CLOUDSIGMA_REGION": "moon.example.com", "CLOUDSIGMA_TOKEN": "t0ken"}, way: "token ****"},

		"no region":                    {args: "--user-email=me@example.com " + oauth, want: "--region"},
		"no credentials":               {args: "--region=zrh", want: "no complete credentials configured"},
		"no user":                      {args: "--region=zrh " + oauth, want: "--user-email"},
		"a bad endpoint":               {args: "--region=zrh", env: map[string]string{"CLOUDSIGMA_TOKEN": "t0ken", "CLOUDSIGMA_API_ENDPOINT": "zrh.cloudsigma.com"}, want: "CLOUDSIGMA_API_ENDPOINT"},
		"no cluster name":              {args: "--region=zrh", env: map[string]string{"CLOUDSIGMA_TOKEN": "t0ken", "cluster": "none"}, want: "no cluster name configured"},
		"nodes alone":                  {args: "--region=zrh --disable-lb-ip-pool", env: map[string]string{"CLOUDSIGMA_TOKEN": "t0ken", "cluster": "none"}, way: "token ****"},
		"nodes alone, by variable":     {args: "--region=zrh", env: map[string]string{"CLOUDSIGMA_TOKEN": "t0ken", "CLOUDSIGMA_DISABLE_LB_IP_POOL": "true", "cluster": "none"}, way: "token ****"},
		"neither true nor false":       {args: "--region=zrh", env: map[string]string{"CLOUDSIGMA_TOKEN": "t0ken", "CLOUDSIGMA_DISABLE_LB_IP_POOL": "yes"}, want: "CLOUDSIGMA_DISABLE_LB_IP_POOL is"},
		"a token for CSI":              {args: "--region=zrh --enable-csi-token", env: map[string]string{"CLOUDSIGMA_TOKEN": "t0ken"}, want: "--disable-lb-ip-pool"},
		"a token for CSI, by variable": {args: "--region=zrh", env: map[string]string{"CLOUDSIGMA_TOKEN": "t0ken", "CLOUDSIGMA_ENABLE_CSI_TOKEN": "true"}, want: "--enable-csi-token"},
	} {
		t.Run(name, func(t *testing.T) {
			c := parseSigma(t, strings.Fields(test.args)...)
			getenv := c.environment(func(name string) string { return test.env[name] })
			clouds := configuredClouds(getenv)
			if len(clouds) != 1 || clouds[0] != config.CloudSigmaNodes {
				t.Fatalf("clouds %v", clouds)
			}
			cfg, err := config.FromEnv(getenv, clouds...)
			if err != nil {
				t.Fatal(err)
			}
			if test.env["cluster"] != "none" {
				cfg.ClusterName = "prod"
			}
			var o cloudsigma.Options
			if cfg, err = c.configuration(cfg, getenv); err == nil {
				o, err = cloudsigma.FromEnv(getenv)
			}
			switch {
			case test.want != "":
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want %q in it", err, test.want)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			if o.Way() != test.way {
				t.Errorf("authenticates by %s, want %s", o.Way(), test.way)
			}
			if served := cfg.Class("") != nil; served == strings.HasPrefix(name, "nodes alone") || cfg.Nodes.Cloud != config.CloudSigmaNodes {
				t.Errorf("classes %v, nodes of %s", cfg.Classes, cfg.Nodes.Cloud)
			}
		})
	}
}

// Flags of the original that are other names of ours.
func TestCloudSigmaSameFlags(t *testing.T) {
	c := parseSigma(t, "--tenant-kubeconfig=a", "--metrics-bind-address=:8080")
	if got, err := c.same("tenant-kubeconfig", c.kubeconfig, "kubeconfig", ""); got != "a" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := c.same("health-probe-bind-address", c.health, "health-address", "default"); got != "default" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	c = parseSigma(t, "--tenant-kubeconfig=a", "--kubeconfig=b")
	if _, err := c.same("tenant-kubeconfig", c.kubeconfig, "kubeconfig", "b"); err == nil {
		t.Error("two kubeconfigs")
	}
}
