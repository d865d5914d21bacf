package cloudsigma

import (
	"net/http"
	"net/netip"
	"time"

	"fairlead.io/sandbox/simulator"
)

// Administer has what only this cloud has below /sandbox/:
//
//	GET    /sandbox/knobs            PATCH sets some of them
//	GET    /sandbox/ports            what passes the firewalls
//	POST   /sandbox/subscribe        {"address": "192.0.2.7"}
//	POST   /sandbox/unsubscribe      the same; "at": "2030-01-01T00:00:00Z" says when it will end
//	POST   /sandbox/dynamic          {"address": "203.0.113.77"}: without a subscription, and no server's
//	POST   /sandbox/route            {"address": "192.0.2.7", "routed": false}
//	POST   /sandbox/servers          a [NewServer]
//	POST   /sandbox/reboot/ID        the guest has all cards of its server afterwards
//	POST   /sandbox/status/ID        {"status": "paused"}
//	POST   /sandbox/tags             {"name": "cluster:x", "resources": ["192.0.2.7"]}, also a second of a name
//	POST   /sandbox/interfere        {"id": TAG, "add": […], "remove": […]}: before the next PUT of a tag
//	POST   /sandbox/endsessions      all tokens of OAuth are invalid
//	DELETE /sandbox/objects/KIND/ID  of a server or a tag
func (s *Simulator) Administer(method string, parts []string, body []byte) (simulator.Answer, error) {
	done := simulator.Answer{Status: http.StatusNoContent}
	made := func(v any, err error) (simulator.Answer, error) {
		return simulator.Answer{Status: http.StatusCreated, Body: v}, err
	}
	var q struct {
		Address   netip.Addr `json:"address"`
		At        time.Time  `json:"at"`
		Routed    bool       `json:"routed"`
		Status    string     `json:"status"`
		ID        string     `json:"id"`
		Name      string     `json:"name"`
		Resources []string   `json:"resources"`
		Add       []string   `json:"add"`
		Remove    []string   `json:"remove"`
	}
	what := method + " " + parts[0]
	switch what {
	case "POST subscribe", "POST unsubscribe", "POST dynamic", "POST route", "POST status", "POST tags", "POST interfere":
		if err := simulator.Strict(body, &q); err != nil {
			return done, err
		}
	}
	switch {
	case len(parts) == 1:
	case len(parts) == 2 && (what == "POST reboot" || what == "POST status"), len(parts) == 3 && what == "DELETE objects":
	default:
		return done, simulator.ErrUnknown
	}
	switch what {
	case "GET knobs":
		s.mu.Lock()
		defer s.mu.Unlock()
		return simulator.Answer{Status: http.StatusOK, Body: s.knobs}, nil
	case "PATCH knobs":
		return done, s.patchKnobs(body)
	case "GET ports":
		ports, about, _ := s.Ports()
		return simulator.Answer{Status: http.StatusOK, Body: map[string]any{"ports": ports, "about": about}}, nil
	case "POST subscribe":
		s.Subscribe(q.Address)
	case "POST unsubscribe":
		if q.At.IsZero() {
			return done, s.EndSubscription(q.Address)
		}
		return done, s.ExpiresAt(q.Address, q.At)
	case "POST dynamic":
		s.AddDynamic(q.Address)
	case "POST route":
		s.SetRouted(q.Address, q.Routed)
	case "POST servers":
		var n NewServer
		if err := simulator.Strict(body, &n); err != nil {
			return done, err
		}
		server, err := s.AddServer(n)
		return made(map[string]string{"uuid": server.UUID}, err)
	case "POST tags":
		return made(map[string]string{"uuid": s.AddTag(q.Name, q.Resources...).UUID}, nil)
	case "POST interfere":
		s.Before(http.MethodPut, Tags, q.ID, func() { _ = s.EditTag(q.ID, q.Add, q.Remove) })
	case "POST endsessions":
		s.EndSessions()
	case "POST reboot":
		if len(parts) != 2 {
			return done, simulator.ErrUnknown
		}
		return done, s.Reboot(parts[1])
	case "POST status":
		if len(parts) != 2 {
			return done, simulator.ErrUnknown
		}
		return done, s.SetStatus(parts[1], q.Status)
	case "DELETE objects":
		if len(parts) != 3 {
			return done, simulator.ErrUnknown
		}
		return done, s.Delete(Kind(parts[1]), parts[2])
	default:
		return done, simulator.ErrUnknown
	}
	return done, nil
}

func (s *Simulator) patchKnobs(body []byte) error {
	s.mu.Lock()
	knobs := s.knobs
	s.mu.Unlock()
	if err := simulator.Strict(body, &knobs); err != nil {
		return err
	}
	if err := knobs.Check(); err != nil {
		return err
	}
	s.Turn(func(k *Knobs) { *k = knobs })
	return nil
}
