package simulator

import (
	"fmt"
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
	Path   string `json:"path,omitempty"` // a pattern of [path.Match], such as /v1/pools/*/members
	Kind   Kind   `json:"kind,omitempty"`
	Skip   int    `json:"skip,omitempty"`  // leave that many alone first
	Times  int    `json:"times,omitempty"` // how many are concerned; 0: one, negative: all

	// Latency is before the request is done; with Lose, after it, as long as
	// the client waits.
	Latency time.Duration `json:"latency,omitempty"`
	// Status answers so instead of doing anything: 401, 403, 429, 503, …
	Status     int           `json:"status,omitempty"`
	Body       any           `json:"body,omitempty"`        // of the answer; default: what the status means; a text that begins with "<" is sent as HTML
	RetryAfter time.Duration `json:"retry_after,omitempty"` // a header of the answer
	// Cut cuts the connection before anything is done.
	Cut bool `json:"cut,omitempty"`
	// Lose does what is asked for, and cuts the connection instead of answering.
	Lose bool `json:"lose,omitempty"`
	// Changing is how long the object is changing afterwards, in a cloud in which
	// changes take time.
	Changing time.Duration `json:"changing,omitempty"`
}

// Fail makes a fault happen. What is added first happens first; one request
// has one fault at most. The returned function ends it.
func (f *Front) Fail(fault Fault) (end func()) {
	if err := fault.check(); err != nil {
		panic(err)
	}
	if fault.Times == 0 {
		fault.Times = 1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &fault)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.faults = slices.DeleteFunc(f.faults, func(other *Fault) bool { return other == &fault })
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
func (f *Front) Faults() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := []Fault{}
	for _, fault := range f.faults {
		all = append(all, *fault)
	}
	return all
}

// ClearFaults ends all faults.
func (f *Front) ClearFaults() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// nextFault is the one that happens to a request, or nil.
func (f *Front) nextFault(method, urlPath string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, fault := range f.faults {
		if !fault.concerns(method, urlPath, f.api.KindOf(urlPath)) {
			continue
		}
		if fault.Skip > 0 {
			fault.Skip--
			continue
		}
		if fault.Times > 0 {
			if fault.Times--; fault.Times == 0 {
				f.faults = slices.Delete(f.faults, i, i+1)
			}
		}
		happening := *fault
		return &happening
	}
	return nil
}

func (f *Fault) concerns(method, urlPath string, kind Kind) bool {
	matches := f.Path == ""
	if !matches {
		matches, _ = path.Match(f.Path, urlPath)
	}
	return matches && (f.Method == "" || f.Method == method) && (f.Kind == "" || f.Kind == kind)
}

// ParseFault reads a fault whose durations are texts, such as "2s".
func ParseFault(raw []byte) (Fault, error) {
	type plain Fault
	texts := struct {
		*plain
		Latency    Duration `json:"latency"`
		RetryAfter Duration `json:"retry_after"`
		Changing   Duration `json:"changing"`
	}{plain: new(plain)}
	if err := Strict(raw, &texts); err != nil {
		return Fault{}, fmt.Errorf("read fault: %w", err)
	}
	f := Fault(*texts.plain)
	f.Latency, f.RetryAfter, f.Changing = time.Duration(texts.Latency), time.Duration(texts.RetryAfter), time.Duration(texts.Changing)
	return f, f.check()
}

// Duration is a text in JSON, such as "2s".
type Duration time.Duration

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// MarshalText writes the same.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

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
