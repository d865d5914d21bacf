package apiretry

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// server is an API server that has reached a version.
type server struct {
	version string
	status  int // of the answer to the question which
	asked   []string
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.URL.RawQuery)
	if r.URL.Query().Get("limit") != "1" {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}
	body := fmt.Sprintf(`{"kind":"ServiceList","metadata":{"resourceVersion":%q,"continue":"x"},"items":[{}]}`, s.version)
	return &http.Response{StatusCode: s.status, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// A read from a version that the server has not reached is refused as one from a version
// that it has no longer: etcd was restored from a backup.
func TestReadsFromALostFuture(t *testing.T) {
	for name, test := range map[string]struct {
		method, query, version string
		status, want           int
		asked                  string // of the server
	}{
		"watch from the past":     {"GET", "watch=true&resourceVersion=400", "500", 200, 200, "[limit=1 watch=true&resourceVersion=400]"},
		"watch from now":          {"GET", "watch=true&resourceVersion=500", "500", 200, 200, "[limit=1 watch=true&resourceVersion=500]"},
		"watch from a future":     {"GET", "watch=true&resourceVersion=900", "500", 200, 410, "[limit=1]"},
		"list from a future":      {"GET", "resourceVersion=900&fieldSelector=a%3Db", "500", 200, 410, "[fieldSelector=a%3Db&limit=1]"},
		"list":                    {"GET", "limit=500", "500", 200, 200, "[limit=500]"},
		"list of any version":     {"GET", "resourceVersion=0", "500", 200, 200, "[resourceVersion=0]"},
		"the server does not say": {"GET", "watch=true&resourceVersion=900", "500", 403, 200, "[limit=1 watch=true&resourceVersion=900]"},
		"no number":               {"GET", "watch=true&resourceVersion=900", "x", 200, 200, "[limit=1 watch=true&resourceVersion=900]"},
		"a write":                 {"PATCH", "resourceVersion=900", "500", 200, 200, "[resourceVersion=900]"},
	} {
		s := &server{version: test.version, status: test.status}
		rewound := 0
		tr := &transport{next: s, away: &absence{}, log: slog.New(slog.DiscardHandler), rewound: func() { rewound++ }}
		resp, err := tr.RoundTrip(httptest.NewRequestWithContext(t.Context(), test.method, "/api/v1/services?"+test.query, nil))
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != test.want || fmt.Sprint(s.asked) != test.asked || (rewound == 1) != (test.want == http.StatusGone) {
			t.Errorf("%s: %d, asked %v, told %d times; want %d, %s", name, resp.StatusCode, s.asked, rewound, test.want, test.asked)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
