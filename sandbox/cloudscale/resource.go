package cloudscale

import (
	"net/http"
	"strings"

	"fairlead.io/sandbox/simulator"
)

// target is what the path of a request names.
type target struct {
	kind   Kind
	pool   string // of members
	id     string // empty: all of them
	action string // of a server
}

// parsePath understands the paths of the API.
func parsePath(path string) (target, bool) {
	rest, ok := strings.CutPrefix(path, "/v1/")
	if !ok {
		return target{}, false
	}
	parts := strings.Split(rest, "/")
	for _, p := range parts {
		if p == "" {
			return target{}, false
		}
	}
	t := target{kind: Kind(parts[0])}
	parts = parts[1:]
	switch t.kind {
	case LoadBalancers:
		if len(parts) > 0 {
			if sub := Kind(parts[0]); sub == Pools || sub == Listeners || sub == HealthMonitors {
				t.kind, parts = sub, parts[1:]
			}
		}
		if t.kind == Pools && len(parts) > 1 && Kind(parts[1]) == Members {
			t.kind, t.pool, parts = Members, parts[0], parts[2:]
		}
	case Servers:
		if len(parts) == 2 {
			t.action, parts = parts[1], parts[:1]
		}
	case Networks, Subnets, FloatingIPs:
	case Flavors, Regions:
		if len(parts) > 0 {
			return target{}, false
		}
	default:
		return target{}, false
	}
	switch len(parts) {
	case 0:
		return t, true
	case 1:
		t.id = parts[0]
		return t, true
	}
	return target{}, false
}

// dispatch does what is asked for, once.
func (s *Simulator) dispatch(q *request) (int, any, error) {
	how := s.resource(q.kind)
	notAllowed := detail(http.StatusMethodNotAllowed, "Method \"%s\" not allowed.", q.method)
	switch {
	case q.method == http.MethodOptions:
		return http.StatusOK, struct{}{}, nil
	case q.action != "" && (q.method != http.MethodPost || how.act == nil):
		return 0, nil, notAllowed
	case q.action != "":
		return http.StatusNoContent, nil, how.act(q)
	case q.id == "" && (q.method == http.MethodGet || q.method == http.MethodHead):
		views, err := how.list(q)
		return http.StatusOK, views, err
	case q.id == "" && q.method == http.MethodPost && how.create != nil:
		view, err := how.create(q)
		return http.StatusCreated, view, err
	case q.id != "" && (q.method == http.MethodGet || q.method == http.MethodHead):
		view, err := how.get(q)
		return http.StatusOK, view, err
	case q.id != "" && q.method == http.MethodPatch && how.update != nil:
		if len(q.fields.values) > 1 {
			// The cloud's own tests see this of servers and volumes. All of its
			// clients send one attribute at a time to load balancers too.
			return 0, nil, detail(http.StatusBadRequest, "Only one attribute can be changed at a time.")
		}
		return http.StatusNoContent, nil, how.update(q)
	case q.id != "" && q.method == http.MethodDelete && how.remove != nil:
		return http.StatusNoContent, nil, how.remove(q)
	}
	return 0, nil, notAllowed
}

// resource is what can be done with the objects of a kind.
type resource struct {
	list   func(*request) ([]any, error)
	get    func(*request) (any, error)
	create func(*request) (any, error)
	update func(*request) error
	remove func(*request) error
	act    func(*request) error
}

func (s *Simulator) resource(k Kind) resource {
	switch k {
	case Servers:
		return resource{s.listServers, s.getServer, s.createServer, s.updateServer, s.removeServer, s.actOnServer}
	case Networks:
		return resource{s.listNetworks, s.getNetwork, s.createNetwork, s.updateNetwork, s.removeNetwork, nil}
	case Subnets:
		return resource{s.listSubnets, s.getSubnet, s.createSubnet, s.updateSubnet, s.removeSubnet, nil}
	case LoadBalancers:
		return resource{s.listLBs, s.getLB, s.createLB, s.updateLB, s.removeLB, nil}
	case Pools:
		return resource{s.listPools, s.getPool, s.createPool, s.updatePool, s.removePool, nil}
	case Members:
		return resource{s.listMembers, s.getMember, s.createMember, s.updateMember, s.removeMember, nil}
	case Listeners:
		return resource{s.listListeners, s.getListener, s.createListener, s.updateListener, s.removeListener, nil}
	case HealthMonitors:
		return resource{s.listMonitors, s.getMonitor, s.createMonitor, s.updateMonitor, s.removeMonitor, nil}
	case FloatingIPs:
		return resource{s.listFIPs, s.getFIP, s.createFIP, s.updateFIP, s.removeFIP, nil}
	case Flavors:
		return resource{list: listFlavors}
	default:
		return resource{list: listRegions}
	}
}

// list returns the views of the objects that have the tags that are asked for.
func list[T any](q *request, t *simulator.Table[T], tags func(*T) map[string]string, view func(*request, *T) any) ([]any, error) {
	views := []any{}
	for object := range t.All() {
		if tagged(tags(object), q.tags) {
			views = append(views, view(q, object))
		}
	}
	return views, nil
}

// tagged reports whether all wanted tags are there; an empty value means any.
func tagged(have map[string]string, want map[string][]string) bool {
	for key, values := range want {
		for _, v := range values {
			if got, has := have[key]; !has || v != "" && got != v {
				return false
			}
		}
	}
	return true
}

// find returns an object, or that it was not found.
func find[T any](t *simulator.Table[T], id string) (*T, error) {
	if object := t.Get(id); object != nil {
		return object, nil
	}
	return nil, errNotFound
}
