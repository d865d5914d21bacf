package cloudsigma

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("fromfile\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	region := []string{EnvRegion, "zrh"}
	keycloak := []string{EnvOAuthURL, "https://oauth", EnvClientID, "me", EnvClientSecret, "secret"}
	email := []string{EnvUserEmail, "a@example.com"}
	basic := []string{EnvUsername, "a@example.com", EnvPassword, "secret"}
	for _, test := range []struct {
		name string
		env  [][]string
		err  string
		way  string
		url  string
	}{
		{"nothing", nil, "no region configured: set --region or CLOUDSIGMA_REGION", "", ""},
		{"no credentials", [][]string{region}, "no complete credentials", "", ""},
		{"no region", [][]string{basic}, "no region configured: set --region or CLOUDSIGMA_REGION", "", ""},
		{"OAuth", [][]string{region, keycloak, email}, "", "OAuth as a@example.com", "https://direct.zrh.cloudsigma.com/api/2.0/"},
		{"OAuth by its other name", [][]string{region, {EnvOAuthURL2, "https://oauth"}, keycloak[2:], email}, "", "OAuth as a@example.com", "https://direct.zrh.cloudsigma.com/api/2.0/"},
		{"OAuth without email", [][]string{region, keycloak}, "no user configured: set --user-email or CLOUDSIGMA_USER_EMAIL", "", ""},
		{"OAuth before others", [][]string{region, keycloak, email, basic, {EnvToken, "t"}}, "", "OAuth as a@example.com", "https://direct.zrh.cloudsigma.com/api/2.0/"},
		{"half of OAuth", [][]string{region, keycloak[:2], email, basic}, "", "user a@example.com", "https://zrh.cloudsigma.com/api/2.0/"},
		{"password although OAuth", [][]string{region, keycloak, email, basic, {EnvLegacyCredentials, "true"}}, "", "user a@example.com", "https://zrh.cloudsigma.com/api/2.0/"},
		{"OAuth, secret in a file", [][]string{region, keycloak[:4], {EnvClientSecret + "_FILE", file}, email}, "", "OAuth as a@example.com", "https://direct.zrh.cloudsigma.com/api/2.0/"},
		{"bad OAuth URL", [][]string{region, {EnvOAuthURL, "oauth.example.com"}, keycloak[2:], email}, "CLOUDSIGMA_OAUTH_URL must be like", "", ""},
		{"token", [][]string{region, {EnvToken, "t"}, basic}, "", "token ****", "https://zrh.cloudsigma.com/api/2.0/"},
		{"token in a file", [][]string{region, {EnvToken + "_FILE", file}}, "", "token ****", "https://zrh.cloudsigma.com/api/2.0/"},
		{"no such file", [][]string{region, {EnvToken + "_FILE", file + "x"}}, "no such file", "", ""},
		{"password", [][]string{region, basic}, "", "user a@example.com", "https://zrh.cloudsigma.com/api/2.0/"},
		{"password in a file", [][]string{region, basic[:2], {EnvPassword + "_FILE", file}}, "", "user a@example.com", "https://zrh.cloudsigma.com/api/2.0/"},
		{"user without a password", [][]string{region, basic[:2]}, "no complete credentials", "", ""},
		{"Terraform's name", [][]string{{EnvLocation, "next"}, basic}, "", "user a@example.com", "https://next.cloudsigma.com/api/2.0/"},
		{"a partner's region", [][]string{{EnvRegion, "DUB"}, basic}, "", "user a@example.com", "https://ec.servecentric.com/api/2.0/"},
		{"a partner's region by OAuth", [][]string{{EnvRegion, "ruh"}, keycloak, email}, "", "OAuth as a@example.com", "https://direct.ruh.cld.v2.sa/api/2.0/"},
		{"no region's code", [][]string{{EnvRegion, "zrh.cloudsigma.com"}, basic}, "is not a code", "", ""},
		{"endpoint", [][]string{region, basic, {EnvEndpoint, "http://127.0.0.1:81"}}, "", "user a@example.com", "http://127.0.0.1:81/api/2.0/"},
		{"endpoint with path", [][]string{region, basic, {EnvEndpoint, "http://127.0.0.1:81/api/2.0"}}, "", "user a@example.com", "http://127.0.0.1:81/api/2.0/"},
		{"endpoint with path and slash, by OAuth", [][]string{region, keycloak, email, {EnvEndpoint, "http://127.0.0.1:81/api/2.0/"}}, "", "OAuth as a@example.com", "http://127.0.0.1:81/api/2.0/"},
		{"endpoint behind a path", [][]string{region, basic, {EnvEndpoint, "https://proxy/sigma/"}}, "", "user a@example.com", "https://proxy/sigma/api/2.0/"},
		{"bad endpoint", [][]string{region, basic, {EnvEndpoint, "zrh.cloudsigma.com"}}, "CLOUDSIGMA_API_ENDPOINT must be like", "", ""},
		{"a timeout with a unit", [][]string{region, basic, {EnvTimeout, "30s"}}, `CLOUDSIGMA_API_TIMEOUT is "30s": set it to a number of seconds`, "", ""},
		{"no timeout", [][]string{region, basic, {EnvTimeout, "0"}}, "CLOUDSIGMA_API_TIMEOUT", "", ""},
		{"neither true nor false", [][]string{region, keycloak, email, basic, {EnvLegacyCredentials, "yes"}}, `CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS is "yes": set it to true or false`, "", ""},
		{"endpoint with a password", [][]string{region, basic, {EnvEndpoint, "https://me:secret@host"}}, "must have neither", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var pairs []string
			for _, p := range test.env {
				pairs = append(pairs, p...)
			}
			o, err := FromEnv(env(pairs...))
			var c *Client
			if err == nil {
				c, err = New(o)
			}
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "secret@") {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if o.Way() != test.way || c.URL() != test.url || o.Timeout != DefaultTimeout {
				t.Errorf("%s, %s, %s", o.Way(), c.URL(), o.Timeout)
			}
			if !Configured(env(pairs...)) {
				t.Error("not configured")
			}
		})
	}
	if Configured(env(basic...)) || Configured(env(region...)) {
		t.Error("half a configuration")
	}
	if o, err := FromEnv(env(append(append([]string{EnvTimeout, "5"}, region...), basic...)...)); err != nil || o.Timeout != 5*time.Second {
		t.Error(o.Timeout, err)
	}
}

// The endpoint that is set is the base of everything.
func TestImpersonateEndpoint(t *testing.T) {
	for override, want := range map[string]string{
		"":                            "https://direct.zrh.cloudsigma.com/service_provider/api/v1/user/impersonate",
		"http://127.0.0.1:81/api/2.0": "http://127.0.0.1:81/service_provider/api/v1/user/impersonate",
		"https://proxy/sigma":         "https://proxy/service_provider/api/v1/user/impersonate",
	} {
		at, err := endpointsOf("zrh", override, true)
		if err != nil || at.impersonate != want {
			t.Errorf("%q: %s, %v", override, at.impersonate, err)
		}
	}
}

// Users of OAuth have a host of their own; the documents name the other one.
func TestBetterHost(t *testing.T) {
	for endpoint, want := range map[string]string{
		"": "", "https://zrh.cloudsigma.com/api/2.0": "direct.zrh.cloudsigma.com", "https://ZRH.cloudsigma.com": "direct.zrh.cloudsigma.com",
		"https://direct.zrh.cloudsigma.com/api/2.0": "", "http://127.0.0.1:81/api/2.0": "", "https://lon.cloudsigma.com": "",
	} {
		if got, better := (Options{Region: "zrh", Endpoint: endpoint, OAuth: &OAuth{}}).BetterHost(); got != want || better != (want != "") {
			t.Errorf("%q: %q, %v", endpoint, got, better)
		}
		if got, better := (Options{Region: "zrh", Endpoint: endpoint}).BetterHost(); better {
			t.Errorf("%q without OAuth: %q", endpoint, got)
		}
	}
}

func FuzzEndpoint(f *testing.F) {
	f.Add("zrh", "", true)
	f.Add("DUB", "https://host/api/2.0", false)
	f.Add("x y", "://", true)
	f.Fuzz(func(t *testing.T, region, override string, direct bool) {
		at, err := endpointsOf(region, override, direct)
		if err == nil && (!strings.HasSuffix(at.api, "/api/2.0/") || !strings.HasPrefix(at.api, "http") || strings.ContainsAny(at.api, " \n")) {
			t.Errorf("%q %q: %q", region, override, at.api)
		}
	})
}

func TestProviderID(t *testing.T) {
	const id = "6a4ffbab-1ba6-4a8f-8f5f-2d4e4d6b2f0e"
	if got, err := ServerID(" " + ProviderID(strings.ToUpper(id)) + "\n"); got != id || err != nil {
		t.Error(got, err)
	}
	for _, bad := range []string{"", id, "cloudscale://" + id, "cloudsigma://", "cloudsigma://node1"} {
		if got, err := ServerID(bad); err == nil {
			t.Errorf("%q is %s", bad, got)
		}
	}
}
