package cloudscale

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"fairlead.io/sandbox/simulator"
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
		s.members.Remove(id)
	case *Listener:
		s.listeners.Remove(id)
	case *HealthMonitor:
		s.monitors.Remove(id)
	case *FloatingIP:
		s.fips.Remove(id)
	case *Network:
		s.networks.Remove(id)
	case *Subnet:
		s.subnets.Remove(id)
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
			return fmt.Errorf("edit %s %s: its ID cannot change", kind, id)
		}
	}
	reflect.ValueOf(object).Elem().Set(edited.Elem())
	s.pools.Regroup()
	s.listeners.Regroup()
	s.members.Regroup()
	s.monitors.Regroup()
	s.changedState()
	return nil
}

// object finds one by its kind and id.
func (s *Simulator) object(kind Kind, id string) (any, error) {
	switch kind {
	case Servers:
		return known(&s.servers, kind, id)
	case LoadBalancers:
		return known(&s.lbs, kind, id)
	case Pools:
		return known(&s.pools, kind, id)
	case Members:
		return known(&s.members, kind, id)
	case Listeners:
		return known(&s.listeners, kind, id)
	case HealthMonitors:
		return known(&s.monitors, kind, id)
	case FloatingIPs:
		return known(&s.fips, kind, id)
	case Networks:
		return known(&s.networks, kind, id)
	case Subnets:
		return known(&s.subnets, kind, id)
	default:
		return nil, fmt.Errorf("objects of kind %s cannot be edited", kind)
	}
}

func known[T any](t *simulator.Table[T], kind Kind, id string) (any, error) {
	if object := t.Get(id); object != nil {
		return object, nil
	}
	return nil, fmt.Errorf("%s %q not found", kind, id)
}
