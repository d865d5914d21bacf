package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// MaxBody is more than any sensible request has. An API gets one byte more of a
// request that is larger, and refuses it in its own words.
const MaxBody = 1 << 20

// Kind is a kind of object of an API, as its path names it.
type Kind string

// API is a simulated cloud behind a Front.
type API interface {
	// KindOf is the kind that a path is about; empty: there is no such path.
	KindOf(path string) Kind
	// Answer does what a request asks for, as the cloud does if nothing goes wrong.
	// changing is what a fault says of it, see Fault.Changing.
	Answer(r *http.Request, changing time.Duration) Answer
	// Refusal is the body of an unsuccessful answer, in the form and, if text
	// is empty, in the words of the cloud.
	Refusal(status int, text string) any
	// Owns says whether a request has the credentials that may do everything. The
	// administration wants them.
	Owns(r *http.Request) bool
	// Administer does what only this cloud has below /sandbox/: parts are those of
	// the path. ErrUnknown: it has no such path.
	Administer(method string, parts []string, body []byte) (Answer, error)
}

// Answer to a request.
type Answer struct {
	Status int
	Body   any // is written as JSON, or as it is if it is HTML; nil: none
}

// HTML is what a proxy answers, whatever the API's form is.
type HTML string

// Clock tells the time. The default is the system's, and that of a bubble of
// testing/synctest inside one.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Front stands before an API: it makes faults happen, keeps the log, and has the
// administration. It is an http.Handler, safe for concurrent use.
type Front struct {
	api    API
	clock  Clock
	header http.Header
	closed chan struct{}
	close  func()

	// RequestID, if the API has such, is a header with a number for each answer.
	RequestID string

	mu     sync.Mutex
	number int
	faults []*Fault
	log    []Request
	counts map[Call]int
}

// NewFront makes a front of an API. A nil clock is the system's; header is on
// every answer.
func NewFront(api API, clock Clock, header http.Header) *Front {
	if clock == nil {
		clock = systemClock{}
	}
	f := &Front{api: api, clock: clock, header: header, closed: make(chan struct{}), counts: make(map[Call]int)}
	f.close = sync.OnceFunc(func() { close(f.closed) })
	return f
}

// Close ends requests that wait; they are not answered.
func (f *Front) Close() { f.close() }

// Now is what the clock says.
func (f *Front) Now() time.Time { return f.clock.Now() }

// Pause reports whether the time has passed, rather than something else ended it.
func (f *Front) Pause(d time.Duration, gone <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-f.clock.After(d):
		return true
	case <-gone:
	case <-f.closed:
	}
	return false
}

// ServeHTTP answers a request of the API, or of the administration.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for key, values := range f.header {
		w.Header()[key] = values
	}
	if f.RequestID != "" {
		w.Header().Set(f.RequestID, f.nextID())
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	if err != nil {
		Write(w, Answer{http.StatusBadRequest, f.api.Refusal(http.StatusBadRequest, "The body could not be read.")})
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if strings.HasPrefix(r.URL.Path, adminPrefix) {
		f.administer(w, r, body)
		return
	}
	started := f.Now()
	fault := f.nextFault(r.Method, r.URL.Path)
	answer, lost := f.exchange(r, fault)
	f.note(Request{
		Time: started, Took: f.Now().Sub(started), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Kind: f.api.KindOf(r.URL.Path), Status: answer.Status, Body: string(body), Fault: fault.String(), Lost: lost,
	})
	if lost {
		panic(http.ErrAbortHandler) // cuts the connection
	}
	if fault != nil && fault.Status != 0 && fault.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int((fault.RetryAfter+time.Second-1)/time.Second)))
	}
	Write(w, answer)
}

// exchange does what a request asks for, or what a fault does to it. If the answer
// is lost, nothing is written, and the connection is cut.
func (f *Front) exchange(r *http.Request, fault *Fault) (a Answer, lost bool) {
	var changing time.Duration
	if fault != nil {
		changing = fault.Changing
		if !fault.Lose {
			f.Pause(fault.Latency, nil)
		}
		switch {
		case fault.Cut:
			return Answer{}, true
		case fault.Status != 0 && fault.Body != nil:
			if page, is := fault.Body.(string); is && strings.HasPrefix(page, "<") {
				return Answer{fault.Status, HTML(page)}, false
			}
			return Answer{fault.Status, fault.Body}, false
		case fault.Status != 0:
			return Answer{fault.Status, f.api.Refusal(fault.Status, "")}, false
		}
	}
	a = f.api.Answer(r, changing)
	if fault != nil && fault.Lose {
		f.Pause(fault.Latency, r.Context().Done())
		return a, true
	}
	select {
	case <-f.closed:
		return a, true
	default:
		return a, false
	}
}

func (f *Front) nextID() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	return fmt.Sprintf("%08x", f.number)
}

// Write writes an answer.
func Write(w http.ResponseWriter, a Answer) {
	switch page, is := a.Body.(HTML); {
	case a.Body == nil:
		w.WriteHeader(a.Status)
		return
	case is:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(a.Status)
		_, _ = io.WriteString(w, string(page))
		return
	}
	raw, err := json.Marshal(a.Body)
	if err != nil {
		panic(err) // they are all ours
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Status)
	// Whether the client is still there is its business.
	_, _ = w.Write(append(raw, '\n'))
}
