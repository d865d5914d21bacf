package oci

import (
	"maps"
	"testing"
)

func TestParseChallenge(t *testing.T) {
	for header, want := range map[string]struct {
		scheme     string
		parameters map[string]string
	}{
		`Bearer realm="https://auth.test/token",service="registry.test",scope="a:b:pull,push"`: {"bearer", map[string]string{"realm": "https://auth.test/token", "service": "registry.test", "scope": "a:b:pull,push"}},
		`bearer realm=https://auth.test/token, Service="x"`:                                    {"bearer", map[string]string{"realm": "https://auth.test/token", "service": "x"}},
		`Basic realm="x"`: {"basic", map[string]string{"realm": "x"}},
		``:                {"", map[string]string{}},
	} {
		scheme, parameters := parseChallenge(header)
		if scheme != want.scheme || !maps.Equal(parameters, want.parameters) {
			t.Errorf("%s: %s %q", header, scheme, parameters)
		}
	}
}

// What a registry sends ends, whatever it is.
func FuzzParseChallenge(f *testing.F) {
	f.Add(`Bearer realm="https://auth.test/token",service="registry.test"`)
	f.Add(`Bearer a=,,=b="`)
	f.Fuzz(func(t *testing.T, header string) {
		_, parameters := parseChallenge(header)
		if len(parameters) > len(header) {
			t.Errorf("%q has %d parameters", header, len(parameters))
		}
	})
}
