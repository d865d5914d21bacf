package simulator

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shop is a small cloud: it sells things, answers errors as a list, and wants a
// password.
type shop struct {
	*Front
	sold     int
	changing time.Duration
}

func newShop() *shop {
	s := &shop{}
	s.Front = NewFront(s, nil, http.Header{"X-Shop": {"open"}})
	return s
}

func (*shop) KindOf(path string) Kind {
	if strings.HasPrefix(path, "/things/") {
		return "things"
	}
	return ""
}

func (s *shop) Answer(r *http.Request, changing time.Duration) Answer {
	if s.KindOf(r.URL.Path) == "" {
		return Answer{404, s.Refusal(404, "")}
	}
	if r.Method == http.MethodPost {
		s.sold++
		s.changing = changing
	}
	return Answer{200, s.sold}
}

func (*shop) Refusal(status int, text string) any {
	if text == "" {
		text = http.StatusText(status)
	}
	return []string{text}
}

func (*shop) Owns(r *http.Request) bool {
	_, password, _ := r.BasicAuth()
	return password == "secret"
}

func (s *shop) Administer(method string, parts []string, _ []byte) (Answer, error) {
	switch {
	case method != http.MethodPost || len(parts) != 1:
		return Answer{}, ErrUnknown
	case parts[0] == "burn":
		return Answer{}, errors.New("it does not burn")
	default:
		s.sold = 0
		return Answer{Status: 204}, nil
	}
}

// ask returns status and body of an answer, or that there is none.
func (s *shop) ask(t *testing.T, method, path, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://shop"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("me", "secret")
	response, err := s.Client().Do(r)
	if err != nil {
		return "lost"
	}
	defer response.Body.Close()
	if response.Header.Get("X-Shop") != "open" {
		t.Errorf("header %v", response.Header)
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(response.Status[:3] + " " + string(answer))
}

// What goes wrong is the same in every cloud; what is said about it is the cloud's.
func TestFaultsOfAnyCloud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		defer s.Close()
		s.Fail(Fault{Kind: "things", Skip: 1, Status: 503})
		s.Fail(Fault{Method: "POST", Path: "/things/*", Cut: true})
		s.Fail(Fault{Method: "POST", Lose: true, Changing: time.Minute})
		s.Fail(Fault{Status: 400, Body: map[string]string{"why": "no"}, Latency: time.Second})
		var got []string
		for _, method := range []string{"GET", "GET", "POST", "POST", "GET", "GET"} {
			got = append(got, s.ask(t, method, "/things/1", ""))
		}
		// The first fault lets one pass; the last one is for whoever comes first.
		want := []string{`400 {"why":"no"}`, `503 ["Service Unavailable"]`, "lost", "lost", "200 1", "200 1"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if s.sold != 1 || s.changing != time.Minute {
			t.Errorf("%d sold, changing for %s: a lost answer was done, a cut request was not", s.sold, s.changing)
		}
		if n := s.Counts()[Call{"GET", "things"}]; n != 4 || s.Writes() != 2 {
			t.Errorf("%d reads and %d writes", n, s.Writes())
		}
		if log := s.Log(); log[0].Took != time.Second || log[0].Fault != "latency 1s, status 400" || !log[3].Lost {
			t.Errorf("log %+v", log)
		}
	})
}

func TestAdministrationOfAnyCloud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		defer s.Close()
		s.ask(t, "POST", "/things/", "ten")
		for _, test := range []struct{ method, path, body, want string }{
			{"GET", "/elsewhere", "", `404 ["Not Found"]`},
			{"GET", "/sandbox/counts", "", `200 [{"method":"GET","kind":"","n":1},{"method":"POST","kind":"things","n":1}]`},
			{"DELETE", "/sandbox/log", "", "204"},
			{"GET", "/sandbox/log", "", "200 []"},
			{"POST", "/sandbox/faults", `{"status": 503, "retry_after": "7s"}`, `201 {"status":503,"retry_after":7000000000}`},
			{"POST", "/sandbox/faults", `{"status": 7}`, `400 ["status of a fault 7: want 400 to 599"]`},
			{"DELETE", "/sandbox/faults", "", "204"},
			{"GET", "/sandbox/faults", "", "200 []"},
			{"POST", "/sandbox/clear", "", "204"},
			{"POST", "/sandbox/burn", "", `400 ["it does not burn"]`},
			{"GET", "/sandbox/nothing", "", `404 ["There is no GET /sandbox/nothing."]`},
		} {
			if got := s.ask(t, test.method, test.path, test.body); got != test.want {
				t.Errorf("%s %s: %s, want %s", test.method, test.path, got, test.want)
			}
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop/sandbox/log", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := s.Client().Do(r)
		if err != nil || response.StatusCode != http.StatusUnauthorized {
			t.Errorf("a stranger: %v, %v", response, err)
		}
		response.Body.Close()
	})
}

func TestTable(t *testing.T) {
	table := Table[string]{Group: func(s *string) string { return (*s)[:1] }}
	for _, s := range []string{"a1", "b1", "a2"} {
		table.Add(s, &s)
	}
	for _, s := range table.In("a") {
		table.Remove(*s)
	}
	table.Remove("nothing")
	*table.Get("b1") = "c1"
	table.Regroup()
	var left []string
	for s := range table.All() {
		left = append(left, *s)
	}
	if diff := cmp.Diff([]string{"c1"}, left); diff != "" || len(table.In("c")) != 1 || len(table.In("b")) != 0 {
		t.Error(diff, table)
	}
}

func FuzzFault(f *testing.F) {
	f.Add([]byte(`{"method":"GET","path":"/v1/*","latency":"1s","status":503,"times":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := newShop()
		defer s.Close()
		if fault, err := ParseFault(raw); err == nil {
			s.Fail(fault)
		}
	})
}
