package cloudsigma

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"fairlead.io/sandbox/simulator"
)

const apiPrefix = "/api/2.0/"

// target is what the path of a request names.
type target struct {
	kind   Kind
	id     string // empty: all of them
	detail bool   // of a list
	of     Kind   // of a tag: list its resources of this kind
	action bool   // of a server
}

// parsePath understands the paths of the API. All of them end with a slash.
func parsePath(path string) (target, bool) {
	switch {
	case strings.HasSuffix(path, tokenPath):
		return target{kind: Token}, true
	case path == impersonatePath:
		return target{kind: Impersonation}, true
	}
	rest, ok := strings.CutPrefix(path, apiPrefix)
	rest, slash := strings.CutSuffix(rest, "/")
	if !ok || !slash {
		return target{}, false
	}
	parts := strings.Split(rest, "/")
	if slices.Contains(parts, "") {
		return target{}, false
	}
	t := target{kind: Kind(parts[0])}
	switch t.kind {
	case Servers, IPs, Tags, Subscriptions, VLANs:
	case Locations, Profile:
		return t, len(parts) == 1
	default:
		return target{}, false
	}
	switch {
	case len(parts) == 1:
		return t, true
	case len(parts) == 2 && parts[1] == "detail":
		t.detail = true
		return t, t.kind != Subscriptions
	case len(parts) == 2:
		t.id = parts[1]
		return t, true
	case len(parts) == 3 && t.kind == Servers && parts[2] == "action":
		t.id, t.action = parts[1], true
		return t, true
	case len(parts) == 3 && t.kind == Tags:
		t.id, t.of = parts[1], Kind(parts[2])
		return t, t.of == IPs || t.of == Servers || t.of == VLANs
	}
	return target{}, false
}

// request is one request after it was understood.
type request struct {
	target
	method string
	query  url.Values
	body   []byte
	user   *User
	now    time.Time
}

// KindOf is the kind of object that a path is about.
func (s *Simulator) KindOf(path string) Kind {
	t, _ := parsePath(path)
	return t.kind
}

// Answer does what a request asks for. No change takes time that can be seen.
func (s *Simulator) Answer(r *http.Request, _ time.Duration) simulator.Answer {
	t, ok := parsePath(r.URL.Path)
	switch {
	case !ok:
		return simulator.Answer{Status: http.StatusNotFound, Body: simulator.HTML("<html><body><h1>Not Found</h1></body></html>")}
	case t.kind == Token:
		return s.giveToken(r)
	case t.kind == Impersonation:
		return s.impersonate(r)
	}
	body, err := readBody(r)
	if err != nil {
		return s.failed(err)
	}
	s.interfere(r.Method, t)
	status, answer, err := s.perform(r, &request{target: t, method: r.Method, query: r.URL.Query(), body: body})
	if err != nil {
		return s.failed(err)
	}
	return simulator.Answer{Status: status, Body: answer}
}

func (s *Simulator) perform(r *http.Request, q *request) (int, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.now = s.Now()
	if q.kind == Locations {
		return s.listAll(q, locations())
	}
	var err error
	if q.user, err = s.authenticate(r); err != nil {
		return 0, nil, err
	}
	status, answer, err := s.dispatch(q)
	if err == nil && q.method != http.MethodGet {
		s.change()
	}
	return status, answer, err
}

// dispatch does what is asked for.
func (s *Simulator) dispatch(q *request) (int, any, error) {
	get := q.method == http.MethodGet
	switch {
	case q.kind == Profile && get:
		return http.StatusOK, map[string]any{"uuid": q.user.UUID, "email": q.user.Email, "resource_uri": apiPrefix + "profile/", "state": "REGULAR"}, nil
	case q.action && q.method == http.MethodPost:
		return s.act(q)
	case q.of != "" && get:
		return s.listTagged(q)
	case q.action || q.of != "":
	case q.id == "" && get:
		return s.list(q)
	case q.id != "" && get:
		view, err := s.view(q, q.id)
		return http.StatusOK, view, err
	case q.id == "" && !q.detail && q.method == http.MethodPost:
		return s.create(q)
	case q.id != "" && q.method == http.MethodPut:
		view, err := s.update(q)
		return http.StatusOK, view, err
	case q.id != "" && q.method == http.MethodDelete:
		return http.StatusNoContent, nil, s.remove(q)
	}
	return 0, nil, methodNotAllowed(q.method)
}

// view is an object by itself.
func (s *Simulator) view(q *request, id string) (any, error) {
	switch q.kind {
	case Servers:
		server, err := s.ownServer(q, id, "LIST")
		if err != nil {
			return nil, err
		}
		return s.serverView(server, true), nil
	case IPs:
		ip, err := s.ownIP(q, id)
		if err != nil {
			return nil, err
		}
		return s.ipView(ip, true), nil
	case Tags:
		tag, err := s.ownTag(q, id)
		if err != nil {
			return nil, err
		}
		return s.tagView(tag, true), nil
	case Subscriptions:
		if sub := s.subscriptions.Get(id); sub != nil && sub.Owner == q.user.UUID {
			return subscriptionView(sub), nil
		}
	case VLANs:
		if vlan := s.vlans.Get(id); vlan != nil && vlan.Owner == q.user.UUID {
			return s.vlanView(vlan), nil
		}
	}
	return nil, notExist(id)
}

func (s *Simulator) create(q *request) (int, any, error) {
	objects, err := q.objects()
	if err != nil {
		return 0, nil, err
	}
	make, can := map[Kind]func(*request, fields) (any, error){Servers: s.createServer, Tags: s.createTag, Subscriptions: s.buy}[q.kind]
	if !can {
		return 0, nil, methodNotAllowed(q.method)
	}
	views := []any{}
	for _, object := range objects {
		view, err := make(q, object)
		if err != nil {
			return 0, nil, err
		}
		views = append(views, view)
	}
	return http.StatusCreated, map[string]any{"objects": views}, nil
}

func (s *Simulator) update(q *request) (any, error) {
	f, err := readFields(q.body)
	if err != nil {
		return nil, err
	}
	switch q.kind {
	case Servers:
		return s.updateServer(q, f)
	case IPs:
		return s.updateIP(q, f)
	case Tags:
		return s.updateTag(q, f)
	}
	return nil, methodNotAllowed(q.method)
}

func (s *Simulator) remove(q *request) error {
	switch q.kind {
	case Servers:
		server, err := s.ownServer(q, q.id, "DELETE")
		if err != nil {
			return err
		}
		if server.Status == running {
			return invalid("", "Cannot delete a running server")
		}
		s.dropServer(server)
		return nil
	case Tags:
		tag, err := s.ownTag(q, q.id)
		if err != nil {
			return err
		}
		s.tags.Remove(tag.UUID)
		return nil
	}
	return methodNotAllowed(q.method)
}
