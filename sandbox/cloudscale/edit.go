package cloudscale

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
)

// Delete removes an object at once, with all that depends on it, as somebody
// else might: no state of a load balancer and no use by others is in its way.
func (s *Simulator) Delete(kind Kind, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, err := s.object(kind, id)
	if err != nil {
		return err
	}
	switch o := object.(type) {
	case *Server:
		s.dropServer(o)
	case *LoadBalancer:
		s.dropLB(o)
	case *Pool:
		s.dropPool(o)
	case *Member:
		s.members.remove(id)
	case *Listener:
		s.listeners.remove(id)
	case *HealthMonitor:
		s.monitors.remove(id)
	case *FloatingIP:
		s.fips.remove(id)
	case *Network:
		s.networks.remove(id)
	case *Subnet:
		s.subnets.remove(id)
	}
	s.changedState()
	return nil
}

// Edit sets fields of an object at once, as somebody else might: also those
// that the API does not let anybody change. The names are the API's, other
// objects are named by their UUIDs.
func (s *Simulator) Edit(kind Kind, id string, fields string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, err := s.object(kind, id)
	if err != nil {
		return err
	}
	// Into a copy of what is shared, and only if all of it is right.
	edited := reflect.New(reflect.TypeOf(object).Elem())
	edited.Elem().Set(reflect.ValueOf(object).Elem())
	if tags := edited.Elem().FieldByName("Tags"); tags.IsValid() {
		tags.Set(reflect.ValueOf(maps.Clone(tags.Interface().(map[string]string))))
	}
	if m, is := edited.Interface().(*HealthMonitor); is {
		m.HTTP = m.HTTP.clone()
	}
	d := json.NewDecoder(bytes.NewReader([]byte(fields)))
	d.DisallowUnknownFields()
	if err := d.Decode(edited.Interface()); err != nil {
		return fmt.Errorf("edit %s %s: %w", kind, id, err)
	}
	for _, name := range []string{"UUID", "Prefix"} {
		if was := reflect.ValueOf(object).Elem().FieldByName(name); was.IsValid() && was.Interface() != edited.Elem().FieldByName(name).Interface() {
			return fmt.Errorf("edit %s %s: it cannot become another", kind, id)
		}
	}
	reflect.ValueOf(object).Elem().Set(edited.Elem())
	s.changedState()
	return nil
}

// object finds one by its kind and id.
func (s *Simulator) object(kind Kind, id string) (any, error) {
	var object any
	found := false
	switch kind {
	case Servers:
		object, found = s.servers.get(id), s.servers.get(id) != nil
	case LoadBalancers:
		object, found = s.lbs.get(id), s.lbs.get(id) != nil
	case Pools:
		object, found = s.pools.get(id), s.pools.get(id) != nil
	case Members:
		object, found = s.members.get(id), s.members.get(id) != nil
	case Listeners:
		object, found = s.listeners.get(id), s.listeners.get(id) != nil
	case HealthMonitors:
		object, found = s.monitors.get(id), s.monitors.get(id) != nil
	case FloatingIPs:
		object, found = s.fips.get(id), s.fips.get(id) != nil
	case Networks:
		object, found = s.networks.get(id), s.networks.get(id) != nil
	case Subnets:
		object, found = s.subnets.get(id), s.subnets.get(id) != nil
	}
	if !found {
		return nil, fmt.Errorf("there is no %q of kind %s", id, kind)
	}
	return object, nil
}
