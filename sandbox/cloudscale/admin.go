package cloudscale

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// adminPrefix begins the paths of the administration, for those who cannot
// call the simulator's methods. All of them want the token.
//
//	GET    /sandbox/log                the requests so far; DELETE forgets them
//	GET    /sandbox/counts             how many, by method and kind
//	GET    /sandbox/faults             those that can still happen
//	POST   /sandbox/faults             a [Fault]; durations are texts, such as "2s"
//	DELETE /sandbox/faults             ends all
//	POST   /sandbox/settle             whatever is changing has changed
//	POST   /sandbox/reachable          {"address": "10.0.0.1", "reachable": false}
//	POST   /sandbox/objects/KIND       adds a server, network, subnet or floating IP
//	PATCH  /sandbox/objects/KIND/ID    sets fields, as somebody else might
//	DELETE /sandbox/objects/KIND/ID    removes it, as somebody else might
const adminPrefix = "/sandbox/"

func (s *Simulator) administer(w http.ResponseWriter, r *http.Request) {
	fail := func(status int, message string) { write(w, status, map[string]string{"detail": message}) }
	if _, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); token != s.options.Token {
		fail(http.StatusUnauthorized, "The simulator's token is needed.")
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		fail(http.StatusBadRequest, err.Error())
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, adminPrefix), "/")
	switch what := r.Method + " " + parts[0]; {
	case len(parts) == 1 && what == "GET log":
		write(w, http.StatusOK, append([]Request{}, s.Log()...))
	case len(parts) == 1 && what == "DELETE log":
		s.ResetLog()
		write(w, http.StatusNoContent, nil)
	case len(parts) == 1 && what == "GET counts":
		write(w, http.StatusOK, s.countList())
	case len(parts) == 1 && what == "GET faults":
		write(w, http.StatusOK, s.Faults())
	case len(parts) == 1 && what == "DELETE faults":
		s.ClearFaults()
		write(w, http.StatusNoContent, nil)
	case len(parts) == 1 && what == "POST faults":
		f, err := ParseFault(body)
		if err != nil {
			fail(http.StatusBadRequest, err.Error())
			return
		}
		s.Fail(f)
		write(w, http.StatusCreated, f)
	case len(parts) == 1 && what == "POST settle":
		s.Settle()
		write(w, http.StatusNoContent, nil)
	case len(parts) == 1 && what == "POST reachable":
		var q struct {
			Address   netip.Addr `json:"address"`
			Reachable bool       `json:"reachable"`
		}
		if err := json.Unmarshal(body, &q); err != nil {
			fail(http.StatusBadRequest, err.Error())
			return
		}
		s.SetReachable(q.Address, q.Reachable)
		write(w, http.StatusNoContent, nil)
	case len(parts) == 2 && what == "POST objects":
		added, err := s.Add(Kind(parts[1]), body)
		if err != nil {
			fail(http.StatusBadRequest, err.Error())
			return
		}
		write(w, http.StatusCreated, added)
	case len(parts) == 3 && (what == "PATCH objects" || what == "DELETE objects"):
		if r.Method == http.MethodPatch {
			err = s.Edit(Kind(parts[1]), parts[2], string(body))
		} else {
			err = s.Delete(Kind(parts[1]), parts[2])
		}
		if err != nil {
			fail(http.StatusBadRequest, err.Error())
			return
		}
		write(w, http.StatusNoContent, nil)
	default:
		fail(http.StatusNotFound, "There is no "+r.Method+" "+r.URL.Path+".")
	}
}

type count struct {
	Call
	N int `json:"n"`
}

// countList has the counts in a fixed order.
func (s *Simulator) countList() []count {
	all := []count{}
	for call, n := range s.Counts() {
		all = append(all, count{call, n})
	}
	slices.SortFunc(all, func(a, b count) int {
		return strings.Compare(string(a.Kind)+" "+a.Method, string(b.Kind)+" "+b.Method)
	})
	return all
}
