package cloudscale

import (
	"encoding/json"
	"fmt"

	"fairlead.io/sandbox/simulator"
)

// Add adds an object that is given as JSON with the fields of its type.
func (s *Simulator) Add(kind Kind, raw []byte) (any, error) {
	switch kind {
	case Servers:
		return add(raw, s.AddServer)
	case Networks:
		return add(raw, s.AddNetwork)
	case Subnets:
		return add(raw, s.AddSubnet)
	case FloatingIPs:
		return add(raw, s.AddFloatingIP)
	default:
		return nil, fmt.Errorf("add %s: only servers, networks, subnets and floating-ips can be added", kind)
	}
}

func add[T any](raw []byte, to func(T) T) (any, error) {
	var object T
	if err := simulator.Strict(raw, &object); err != nil {
		return nil, err
	}
	return to(object), nil
}

// Seed adds all objects of a file: a JSON object of lists, by kind.
func (s *Simulator) Seed(raw []byte) error {
	var file map[Kind][]json.RawMessage
	if err := json.Unmarshal(raw, &file); err != nil {
		return fmt.Errorf("read seed: %w", err)
	}
	for kind := range file {
		switch kind {
		case Networks, Subnets, Servers, FloatingIPs:
		default:
			return fmt.Errorf("read seed: unknown kind %q", kind)
		}
	}
	for _, kind := range []Kind{Networks, Subnets, Servers, FloatingIPs} { // what is referred to comes first
		for _, object := range file[kind] {
			if _, err := s.Add(kind, object); err != nil {
				return fmt.Errorf("read seed: %s: %w", kind, err)
			}
		}
	}
	return nil
}
