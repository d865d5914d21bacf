package cloudscale

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// Request is one request in the log.
type Request struct {
	Time   time.Time     `json:"time"`
	Took   time.Duration `json:"took"`
	Method string        `json:"method"`
	Path   string        `json:"path"`
	Query  string        `json:"query,omitempty"`
	Kind   Kind          `json:"kind"`           // empty: of no path that there is
	Body   string        `json:"body,omitempty"` // that was sent
	Status int           `json:"status"`         // also if it was lost; 0 if it was cut
	Fault  string        `json:"fault,omitempty"`
	Lost   bool          `json:"lost,omitempty"` // no answer was sent
}

// Call is what requests are counted by.
type Call struct {
	Method string `json:"method"`
	Kind   Kind   `json:"kind"`
}

func (s *Simulator) note(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, r)
	s.counts[Call{r.Method, r.Kind}]++
}

// Log returns all requests of the API since the last reset, in the order of
// their ends.
func (s *Simulator) Log() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Counts returns how many requests there were since the last reset.
func (s *Simulator) Counts() map[Call]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Writes is the number of requests that were no GET since the last reset.
func (s *Simulator) Writes() int {
	writes := 0
	for call, n := range s.Counts() {
		if call.Method != http.MethodGet && call.Method != http.MethodHead {
			writes += n
		}
	}
	return writes
}

// ResetLog forgets all requests.
func (s *Simulator) ResetLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log, s.counts = nil, make(map[Call]int)
}
