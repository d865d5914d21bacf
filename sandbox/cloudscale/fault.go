package cloudscale

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// Fault is something that goes wrong with requests. Which ones is said by
// Method, Path and Kind; what is empty means any. What happens to them is said
// by the other fields; several may be set.
//
// Go's http.Transport sends a GET again by itself if a kept connection is cut
// before the answer; so a cut GET may be in the log twice.
type Fault struct {
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"` // a pattern of [path.Match], such as /v1/load-balancers/pools/*/members
	Kind   Kind   `json:"kind,omitempty"`
	Skip   int    `json:"skip,omitempty"`  // leave that many alone first
	Times  int    `json:"times,omitempty"` // how many are concerned; 0: one, negative: all

	// Latency is before the request is done; with Lose, after it, as long as
	// the client waits.
	Latency time.Duration `json:"latency,omitempty"`
	// Status answers so instead of doing anything: 401, 403, 429, 503, …
	Status     int               `json:"status,omitempty"`
	Body       map[string]string `json:"body,omitempty"`        // of the answer; default: what the status means
	RetryAfter time.Duration     `json:"retry_after,omitempty"` // a header of the answer
	// Cut cuts the connection before anything is done.
	Cut bool `json:"cut,omitempty"`
	// Lose does what is asked for, and cuts the connection instead of answering.
	Lose bool `json:"lose,omitempty"`
	// Changing is how long the load balancer is changing afterwards.
	Changing time.Duration `json:"changing,omitempty"`
}

// Fail makes a fault happen. What is added first happens first; one request
// has one fault at most. The returned function ends it.
func (s *Simulator) Fail(f Fault) (end func()) {
	if err := f.check(); err != nil {
		panic(err)
	}
	if f.Times == 0 {
		f.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = slices.DeleteFunc(s.faults, func(other *Fault) bool { return other == &f })
	}
}

// check finds what can never be.
func (f *Fault) check() error {
	if _, err := path.Match(f.Path, ""); err != nil {
		return fmt.Errorf("pattern of a fault %q: %w", f.Path, err)
	}
	if f.Status != 0 && (f.Status < 400 || f.Status > 599) {
		return fmt.Errorf("status of a fault %d: want 400 to 599", f.Status)
	}
	return nil
}

// Faults returns those that can still happen.
func (s *Simulator) Faults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []Fault{}
	for _, f := range s.faults {
		all = append(all, *f)
	}
	return all
}

// ClearFaults ends all faults.
func (s *Simulator) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// nextFault is the one that happens to a request, or nil.
func (s *Simulator) nextFault(method, urlPath string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if !f.concerns(method, urlPath) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
		}
		happening := *f
		return &happening
	}
	return nil
}

func (f *Fault) concerns(method, urlPath string) bool {
	t, _ := parsePath(urlPath)
	matches := f.Path == ""
	if !matches {
		matches, _ = path.Match(f.Path, urlPath)
	}
	return matches && (f.Method == "" || f.Method == method) && (f.Kind == "" || f.Kind == t.kind)
}

// body of the answer, in the words of the cloud.
func (f *Fault) body() map[string]string {
	if f.Body != nil {
		return f.Body
	}
	text := map[int]string{
		http.StatusUnauthorized:       "Invalid token.",
		http.StatusForbidden:          "You do not have permission to perform this action.",
		http.StatusNotFound:           "Not found.",
		http.StatusTooManyRequests:    "Request was throttled.",
		http.StatusServiceUnavailable: "The service is under maintenance.",
	}[f.Status]
	if text == "" {
		text = http.StatusText(f.Status)
	}
	return map[string]string{"detail": text}
}

// String is what the log says of it; empty for none.
func (f *Fault) String() string {
	if f == nil {
		return ""
	}
	var parts []string
	if f.Latency > 0 {
		parts = append(parts, "latency "+f.Latency.String())
	}
	if f.Status != 0 {
		parts = append(parts, fmt.Sprint("status ", f.Status))
	}
	if f.Cut {
		parts = append(parts, "cut")
	}
	if f.Lose {
		parts = append(parts, "lost")
	}
	if f.Changing > 0 {
		parts = append(parts, "changing "+f.Changing.String())
	}
	return strings.Join(parts, ", ")
}
