package cloudscale

import (
	"net/http"
	"testing"
	"unicode/utf8"

	"fairlead.io/internal/cloud"
)

// Whatever a proxy answers, it is told as a short line, and does not hurt.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{`{"detail": "Not found."}`, `{"a": ["b"], "c": {"d": 1}, "e": null}`, `<html>`, ``, "\xff\x00", `[]`, `"x"`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e := &cloud.Error{Method: http.MethodGet, Path: "/v1/x", Status: 400}
		explain(e, body)
		if !utf8.ValidString(e.Detail()) && utf8.Valid(body) {
			t.Errorf("detail %q", e.Detail())
		}
		_ = e.Error()
	})
}
