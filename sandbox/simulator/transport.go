package simulator

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
)

// Client returns a client whose requests are answered by the simulator without
// a network, to any host: inside a bubble of testing/synctest, time passes
// only when everybody waits.
func (f *Front) Client() *http.Client { return &http.Client{Transport: transport{f}} }

type transport struct{ f *Front }

// RoundTrip runs the request to its end even if the caller stops waiting, as a
// server does.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	r = r.Clone(ctx)
	r.Host = r.URL.Host
	if r.Body == nil {
		r.Body = http.NoBody
	}
	type result struct {
		response *http.Response
		err      error
	}
	done := make(chan result, 1)
	go func() {
		defer r.Body.Close()
		defer func() {
			if cut := recover(); cut != nil {
				if err, is := cut.(error); !is || !errors.Is(err, http.ErrAbortHandler) {
					panic(cut)
				}
				done <- result{nil, io.ErrUnexpectedEOF}
			}
		}()
		w := httptest.NewRecorder()
		t.f.ServeHTTP(w, r)
		response := w.Result()
		response.Request = r
		done <- result{response, nil}
	}()
	select {
	case got := <-done:
		return got.response, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
