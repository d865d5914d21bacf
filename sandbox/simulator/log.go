package simulator

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

func (f *Front) note(r Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, r)
	f.counts[Call{r.Method, r.Kind}]++
}

// Log returns all requests of the API since the last reset, in the order of
// their ends.
func (f *Front) Log() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// Counts returns how many requests there were since the last reset.
func (f *Front) Counts() map[Call]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts)
}

// Writes is the number of requests that were no GET since the last reset.
func (f *Front) Writes() int {
	writes := 0
	for call, n := range f.Counts() {
		if call.Method != http.MethodGet && call.Method != http.MethodHead {
			writes += n
		}
	}
	return writes
}

// ResetLog forgets all requests.
func (f *Front) ResetLog() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log, f.counts = nil, make(map[Call]int)
}
