package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// adminPrefix begins the paths of the administration, for those who cannot
// call methods. All of them want the credentials that may do everything.
//
//	GET    /sandbox/log       the requests so far; DELETE forgets them
//	GET    /sandbox/counts    how many, by method and kind
//	GET    /sandbox/faults    those that can still happen
//	POST   /sandbox/faults    a [Fault]; durations are texts, such as "2s"
//	DELETE /sandbox/faults    ends all
//
// A cloud has further ones of its own.
const adminPrefix = "/sandbox/"

// ErrUnknown is a path of the administration that a cloud does not have.
var ErrUnknown = errors.New("path not found")

func (f *Front) administer(w http.ResponseWriter, r *http.Request, body []byte) {
	fail := func(status int, message string) { Write(w, Answer{status, f.api.Refusal(status, message)}) }
	if !f.api.Owns(r) {
		fail(http.StatusUnauthorized, "The simulator's token is needed.")
		return
	}
	path := strings.TrimPrefix(r.URL.Path, adminPrefix)
	switch r.Method + " " + path {
	case "GET log":
		Write(w, Answer{http.StatusOK, append([]Request{}, f.Log()...)})
	case "DELETE log":
		f.ResetLog()
		Write(w, Answer{Status: http.StatusNoContent})
	case "GET counts":
		Write(w, Answer{http.StatusOK, f.countList()})
	case "GET faults":
		Write(w, Answer{http.StatusOK, f.Faults()})
	case "DELETE faults":
		f.ClearFaults()
		Write(w, Answer{Status: http.StatusNoContent})
	case "POST faults":
		fault, err := ParseFault(body)
		if err != nil {
			fail(http.StatusBadRequest, err.Error())
			return
		}
		f.Fail(fault)
		Write(w, Answer{http.StatusCreated, fault})
	default:
		answer, err := f.api.Administer(r.Method, strings.Split(path, "/"), body)
		switch {
		case errors.Is(err, ErrUnknown):
			fail(http.StatusNotFound, "There is no "+r.Method+" "+r.URL.Path+".")
		case err != nil:
			fail(http.StatusBadRequest, err.Error())
		default:
			Write(w, answer)
		}
	}
}

type count struct {
	Call
	N int `json:"n"`
}

// countList has the counts in a fixed order.
func (f *Front) countList() []count {
	all := []count{}
	for call, n := range f.Counts() {
		all = append(all, count{call, n})
	}
	slices.SortFunc(all, func(a, b count) int {
		return strings.Compare(string(a.Kind)+" "+a.Method, string(b.Kind)+" "+b.Method)
	})
	return all
}

// Strict reads JSON without unknown fields, and nothing after it.
func Strict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one object")
	}
	return nil
}
