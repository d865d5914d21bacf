package cloudscale

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestFromEnv(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("fromfile\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		env     []string
		err     string
		token   string
		timeout time.Duration
		base    string
	}{
		{"nothing", nil, "no CLOUDSCALE_ACCESS_TOKEN configured", "", 0, ""},
		{"token", []string{EnvToken, " tokentoken\n"}, "", "tokentoken", 20 * time.Second, "https://api.cloudscale.ch/"},
		{"file", []string{EnvTokenFile, file}, "", "fromfile", 20 * time.Second, "https://api.cloudscale.ch/"},
		{"both", []string{EnvTokenFile, file, EnvToken, "direct"}, "", "direct", 20 * time.Second, "https://api.cloudscale.ch/"},
		{"no file", []string{EnvTokenFile, file + "x"}, "no such file", "", 0, ""},
		{"blank token", []string{EnvToken, " \n"}, "the access token is empty", "", 0, ""},
		{"two lines", []string{EnvToken, "one\ntwo"}, "characters that are invalid in a token", "", 0, ""},
		{"5 s", []string{EnvToken, "t", EnvTimeout, "5"}, "", "t", 5 * time.Second, "https://api.cloudscale.ch/"},
		{"0 s", []string{EnvToken, "t", EnvTimeout, "0"}, "", "t", 20 * time.Second, "https://api.cloudscale.ch/"},
		{"less", []string{EnvToken, "t", EnvTimeout, "-1"}, "", "t", 20 * time.Second, "https://api.cloudscale.ch/"},
		{"no number", []string{EnvToken, "t", EnvTimeout, "5s"}, "", "t", 20 * time.Second, "https://api.cloudscale.ch/"},
		{"URL", []string{EnvToken, "t", EnvURL, "http://127.0.0.1:81"}, "", "t", 20 * time.Second, "http://127.0.0.1:81/"},
		{"URL with slash", []string{EnvToken, "t", EnvURL, "http://127.0.0.1:81/"}, "", "t", 20 * time.Second, "http://127.0.0.1:81/"},
		{"URL with path", []string{EnvToken, "t", EnvURL, "https://proxy/cloudscale"}, "", "t", 20 * time.Second, "https://proxy/cloudscale/"},
		{"no URL", []string{EnvToken, "t", EnvURL, "api.cloudscale.ch"}, "CLOUDSCALE_API_URL must be like", "", 0, ""},
		{"URL with a password", []string{EnvToken, "t", EnvURL, "https://me:secret@host"}, "must have neither", "", 0, ""},
		{"broken URL", []string{EnvToken, "t", EnvURL, "https://me:secret@ho st"}, "is not a URL", "", 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, err := FromEnv(env(test.env...))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "secret") {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			if got := o.Token.Value(); got != test.token {
				t.Errorf("token %q", got)
			}
			if o.Timeout != test.timeout || c.URL() != test.base {
				t.Errorf("timeout %v, URL %q", o.Timeout, c.URL())
			}
		})
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a client without a token")
	}
}

func TestConfigured(t *testing.T) {
	for want, pairs := range map[bool][]string{true: {EnvTokenFile, "x"}, false: {EnvURL, "x"}} {
		if got := Configured(env(pairs...)); got != want {
			t.Errorf("%v: %v", pairs, got)
		}
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := serveWith(t, Options{Metrics: registry}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, "[]")
	})
	_, _ = c.Servers.List(t.Context(), nil)
	_, _ = c.Servers.List(t.Context(), nil)
	_ = c.Members("p").Delete(t.Context(), "m")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += " " + l.GetValue()
			}
			n := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			got = append(got, fmt.Sprint(family.GetName(), labels, " ", n))
		}
	}
	want := []string{
		"fairlead_cloudscale_request_seconds member delete 1",
		"fairlead_cloudscale_request_seconds server get 2",
		"fairlead_cloudscale_requests_total 200 server get 2",
		"fairlead_cloudscale_requests_total 404 member delete 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
