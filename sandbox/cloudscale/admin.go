package cloudscale

import (
	"encoding/json"
	"net/http"
	"net/netip"

	"fairlead.io/sandbox/simulator"
)

// Administer has what only this cloud has below /sandbox/:
//
//	POST   /sandbox/settle             whatever is changing has changed
//	POST   /sandbox/reachable          {"address": "10.0.0.1", "reachable": false}
//	POST   /sandbox/objects/KIND       adds a server, network, subnet or floating IP
//	PATCH  /sandbox/objects/KIND/ID    sets fields, as somebody else might
//	DELETE /sandbox/objects/KIND/ID    removes it, as somebody else might
func (s *Simulator) Administer(method string, parts []string, body []byte) (simulator.Answer, error) {
	done := simulator.Answer{Status: http.StatusNoContent}
	switch what := method + " " + parts[0]; {
	case len(parts) == 1 && what == "POST settle":
		s.Settle()
		return done, nil
	case len(parts) == 1 && what == "POST reachable":
		var q struct {
			Address   netip.Addr `json:"address"`
			Reachable bool       `json:"reachable"`
		}
		if err := json.Unmarshal(body, &q); err != nil {
			return done, err
		}
		s.SetReachable(q.Address, q.Reachable)
		return done, nil
	case len(parts) == 2 && what == "POST objects":
		added, err := s.Add(Kind(parts[1]), body)
		return simulator.Answer{Status: http.StatusCreated, Body: added}, err
	case len(parts) == 3 && what == "PATCH objects":
		return done, s.Edit(Kind(parts[1]), parts[2], string(body))
	case len(parts) == 3 && what == "DELETE objects":
		return done, s.Delete(Kind(parts[1]), parts[2])
	default:
		return done, simulator.ErrUnknown
	}
}
