package cloudscale

import (
	"net/http"
	"testing"
	"time"
	"unicode/utf8"
)

// Whatever a proxy answers, it is told as a short line, and does not hurt.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{`{"detail": "Not found."}`, `{"a": ["b"], "c": {"d": 1}, "e": null}`, `<html>`, ``, "\xff\x00", `[]`, `"x"`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e := &Error{Method: http.MethodGet, Path: "/v1/x", Status: 400, Messages: messages(body)}
		if !utf8.ValidString(e.Detail()) && utf8.Valid(body) {
			t.Errorf("detail %q", e.Detail())
		}
		_ = e.Error()
		IsBusy(e)
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "120", "-1", "99999999999999999999", "9223372036854775807", "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2999 07:28:00 GMT", "soon"} {
		f.Add(s)
	}
	now := time.Date(2015, 10, 21, 7, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, header string) {
		if d := retryAfter(header, now); d < 0 || d > retryAfterMost {
			t.Errorf("%q is %v", header, d)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2015, 10, 21, 7, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "Wed, 21 Oct 2015 07:01:30 GMT": 90 * time.Second,
		"Wed, 21 Oct 2015 06:00:00 GMT": 0, "100000": retryAfterMost, "soon": 0,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q is %v, want %v", header, got, want)
		}
	}
}
