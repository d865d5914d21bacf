package cloud

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzAnswer: whatever a cloud or a proxy before it answers, the call ends. What is said
// about it is short and does not have the token, and a read never has an unknown
// outcome. A redirect is not followed.
func FuzzAnswer(f *testing.F) {
	f.Add(200, `["a"]`, "", "", false)
	f.Add(201, `{"uuid": "x"}`, "", "", true)
	f.Add(400, `{"detail": "TOKEN is no name"}`, "", "", true)
	f.Add(302, ``, "", "http://elsewhere/", true)
	f.Add(503, `<html>`, "120", "", false)
	f.Add(200, `{"detail":`, "", "", true)
	f.Add(429, "\xff\x00", "Wed, 21 Oct 2015 07:28:00 GMT", "", false)
	f.Fuzz(func(t *testing.T, status int, body, retry, location string, writes bool) {
		if status < 100 || status > 999 {
			return
		}
		body = strings.ReplaceAll(body, "TOKEN", testToken)
		calls := 0
		c := scripted(t, func(r *http.Request) (*http.Response, error) {
			if calls++; r.URL.Host != "cloud" {
				t.Errorf("a call of %s", r.URL.Host)
			}
			header := http.Header{}
			for key, value := range map[string]string{"Retry-After": retry, "Location": location} {
				if value != "" {
					header.Set(key, value)
				}
			}
			return answer(status, header, body), nil
		})
		var out any
		call := Call{Method: http.MethodGet, Kind: "thing", Path: "things/", Out: &out}
		if writes {
			call.Method = http.MethodPost
		}
		e := c.attempt(t.Context(), call, nil)
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
		if e == nil {
			if status > 299 {
				t.Errorf("status %d is taken for success", status)
			}
			return
		}
		text := e.Error()
		if len(text) > 2048 || strings.Contains(text, testToken) || !utf8.ValidString(e.Detail()) {
			t.Errorf("said in %d bytes: %.300q", len(text), text)
		}
		if e.OutcomeUnknown && !writes {
			t.Errorf("the outcome of a read is not known: %v", e)
		}
		if after, _ := RetryAfter(e); after < 0 || after > maxRetryAfter {
			t.Errorf("to be tried again after %v", after)
		}
	})
}

// FuzzParseURL: what is accepted is an address to which paths can be added, and reads the
// same again. What is refused does not show what was in it: that may be a password.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"https://api.example", "http://127.0.0.1:81/v1/", "https://user:pa55word@api.example/", "://", "https://a/?q#f", "ftp://a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		out, err := ParseURL("API_URL", value, "https://api.example/")
		if err != nil {
			if strings.Contains(value, "pa55word") && strings.Contains(err.Error(), "pa55word") {
				t.Errorf("%v", err)
			}
			return
		}
		if !strings.HasSuffix(out, "/") || strings.Contains(out, "?") || strings.Contains(out, "@") && !strings.Contains(strings.SplitN(out, "://", 2)[1], "/") {
			t.Errorf("%q becomes %q", value, out)
		}
		if again, err := ParseURL("API_URL", out, ""); err != nil || again != out {
			t.Errorf("%q becomes %q, then %q, %v", value, out, again, err)
		}
	})
}
