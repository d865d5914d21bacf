package cloudscale

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// maxBody is more than any sensible request has.
const maxBody = 1 << 20

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

// apiError is an answer that is no success. All of its bodies are objects of
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

// ServeHTTP answers a request of the API, or of the administration.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for key, value := range map[string]string{
		"Access-Control-Allow-Origin": "*", "Vary": "Accept, Origin", "Allow": "GET, POST, PATCH, DELETE, HEAD, OPTIONS",
	} {
		w.Header().Set(key, value)
	}
	if strings.HasPrefix(r.URL.Path, adminPrefix) {
		s.administer(w, r)
		return
	}
	started := s.now()
	fault := s.nextFault(r.Method, r.URL.Path)
	answer := s.exchange(r, fault)
	t, _ := parsePath(r.URL.Path)
	s.note(Request{
		Time: started, Took: s.now().Sub(started), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Kind: t.kind, Status: answer.status, Body: answer.sent, Fault: fault.String(), Lost: answer.lost,
	})
	if answer.lost {
		panic(http.ErrAbortHandler) // cuts the connection
	}
	if answer.retryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int((answer.retryAfter+time.Second-1)/time.Second)))
	}
	write(w, answer.status, answer.body)
}

// answer is what a request leads to.
type answer struct {
	status     int
	body       any // nil: none
	retryAfter time.Duration
	lost       bool   // nothing is written, and the connection is cut
	sent       string // body of the request
}

// exchange does what a request asks for, except for what a fault does to it.
func (s *Simulator) exchange(r *http.Request, f *Fault) answer {
	var sent string
	failed := func(err error) answer {
		var e *apiError
		if !errors.As(err, &e) {
			e = &apiError{http.StatusInternalServerError, map[string]string{"detail": err.Error()}}
		}
		return answer{status: e.status, body: e.body, sent: sent}
	}
	var slow time.Duration
	if f != nil {
		slow = f.Changing
		if !f.Lose {
			s.pause(f.Latency, nil)
		}
		if f.Cut {
			return answer{lost: true}
		}
		if f.Status != 0 {
			a := failed(&apiError{f.Status, f.body()})
			a.retryAfter = f.RetryAfter
			return a
		}
	}
	q, err := s.understand(r)
	if err != nil {
		return failed(err)
	}
	q.slow, sent = slow, q.fields.sent
	status, body, err := s.perform(r, q)
	a := answer{status: status, body: body, sent: sent}
	if err != nil {
		a = failed(err)
	}
	if f != nil && f.Lose {
		s.pause(f.Latency, r.Context().Done())
		a.lost = true
	}
	select {
	case <-s.closed:
		a.lost = true
	default:
	}
	return a
}

// understand checks who asks, and reads what is asked for.
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
func (s *Simulator) perform(r *http.Request, q *request) (int, any, error) {
	for {
		s.mu.Lock()
		q.now = s.now()
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
		if !s.pause(busy.until.Sub(q.now), nil) {
			return 0, nil, detail(http.StatusServiceUnavailable, "The simulator ends.")
		}
	}
}

// pause reports whether the time has passed, rather than something else ended it.
func (s *Simulator) pause(d time.Duration, gone <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-s.options.Clock.After(d):
		return true
	case <-gone:
	case <-s.closed:
	}
	return false
}

func baseOf(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + "/v1/"
}

func write(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // they are all ours
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// Whether the client is still there is its business.
	_, _ = w.Write(append(raw, '\n'))
}
