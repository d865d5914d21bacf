package cloudscale

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"fairlead.io/sandbox/simulator"
)

// request is one request after it was understood.
type request struct {
	method string
	target
	fields *fields
	tags   map[string][]string // of a list: what tags have to be
	base   string              // what every href begins with
	now    time.Time
	slow   time.Duration // by a fault: how long its load balancer will be changing
}

// apiError is an unsuccessful answer. All of its bodies are objects of
// strings: the cloud's own client reads no others.
type apiError struct {
	status int
	body   map[string]string
}

func (e *apiError) Error() string { return fmt.Sprint(e.status, " ", e.body) }

func detail(status int, format string, args ...any) error {
	return &apiError{status, map[string]string{"detail": fmt.Sprintf(format, args...)}}
}

var errNotFound = detail(http.StatusNotFound, "Not found.")

// busyError is a change that has to wait.
type busyError struct {
	until  time.Time
	making bool // the load balancer is being made
}

func (e *busyError) Error() string { return "busy" }

// header is on every answer.
var header = http.Header{"Access-Control-Allow-Origin": {"*"}, "Vary": {"Accept, Origin"}, "Allow": {"GET, POST, PATCH, DELETE, HEAD, OPTIONS"}}

// KindOf is the kind of object that a path is about.
func (s *Simulator) KindOf(path string) Kind {
	t, _ := parsePath(path)
	return t.kind
}

// Answer does what a request asks for; its load balancer is changing for so long.
func (s *Simulator) Answer(r *http.Request, changing time.Duration) simulator.Answer {
	q, err := s.understand(r)
	if err != nil {
		return failed(err)
	}
	q.slow = changing
	status, body, err := s.perform(q)
	if err != nil {
		return failed(err)
	}
	return simulator.Answer{Status: status, Body: body}
}

func failed(err error) simulator.Answer {
	var e *apiError
	if !errors.As(err, &e) {
		return simulator.Answer{Status: http.StatusInternalServerError, Body: map[string]string{"detail": err.Error()}}
	}
	return simulator.Answer{Status: e.status, Body: e.body}
}

// Refusal is what the cloud says of a status.
func (s *Simulator) Refusal(status int, text string) any {
	if text == "" {
		text = map[int]string{
			http.StatusUnauthorized:       "Invalid token.",
			http.StatusForbidden:          "You do not have permission to perform this action.",
			http.StatusNotFound:           "Not found.",
			http.StatusTooManyRequests:    "Request was throttled.",
			http.StatusServiceUnavailable: "The service is under maintenance.",
		}[status]
	}
	if text == "" {
		text = http.StatusText(status)
	}
	return map[string]string{"detail": text}
}

// understand authenticates the client, and reads what is asked for.
func (s *Simulator) understand(r *http.Request) (*request, error) {
	if err := s.allow(r); err != nil {
		return nil, err
	}
	t, ok := parsePath(r.URL.Path)
	if !ok {
		return nil, errNotFound
	}
	q := &request{method: r.Method, target: t, tags: make(map[string][]string), base: baseOf(r), fields: &fields{}}
	for key, values := range r.URL.Query() {
		if tag, is := strings.CutPrefix(key, "tag:"); is {
			q.tags[tag] = append(q.tags[tag], values...)
		}
	}
	if r.Method == http.MethodPost || r.Method == http.MethodPatch {
		var err error
		if q.fields, err = readFields(r); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// Owns says whether a request has the token that may do everything.
func (s *Simulator) Owns(r *http.Request) bool {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return token == s.options.Token
}

// allow checks the token.
func (s *Simulator) allow(r *http.Request) error {
	header := r.Header.Get("Authorization")
	scheme, token, _ := strings.Cut(header, " ")
	switch {
	case header == "" || !strings.EqualFold(scheme, "Bearer"):
		return detail(http.StatusUnauthorized, "Authentication credentials were not provided.")
	case token == s.options.Token:
		return nil
	case token != s.options.ReadOnlyToken || token == "":
		return detail(http.StatusUnauthorized, "Invalid token.")
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions:
		return detail(http.StatusForbidden, "You do not have permission to perform this action.")
	}
	return nil
}

// perform does what is asked for, waiting for its turn if changes wait.
func (s *Simulator) perform(q *request) (int, any, error) {
	for {
		s.mu.Lock()
		q.now = s.Now()
		status, body, err := s.dispatch(q)
		s.mu.Unlock()
		var busy *busyError
		if !errors.As(err, &busy) {
			return status, body, err
		}
		if s.options.Busy == BusyRefuses || busy.making {
			return 0, nil, detail(http.StatusBadRequest, "The load balancer is being changed. Please try again.")
		}
		// It happens even if the client has gone meanwhile.
		if !s.Pause(busy.until.Sub(q.now), nil) {
			return 0, nil, detail(http.StatusServiceUnavailable, "The simulator ends.")
		}
	}
}

func baseOf(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + "/v1/"
}
