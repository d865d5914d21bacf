package cloudscale

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
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
	if err := strict(raw, &object); err != nil {
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

// ParseFault reads a fault whose durations are texts, such as "2s".
func ParseFault(raw []byte) (Fault, error) {
	type plain Fault
	texts := struct {
		*plain
		Latency    duration `json:"latency"`
		RetryAfter duration `json:"retry_after"`
		Changing   duration `json:"changing"`
	}{plain: new(plain)}
	if err := strict(raw, &texts); err != nil {
		return Fault{}, fmt.Errorf("read fault: %w", err)
	}
	f := Fault(*texts.plain)
	f.Latency, f.RetryAfter, f.Changing = time.Duration(texts.Latency), time.Duration(texts.RetryAfter), time.Duration(texts.Changing)
	return f, f.check()
}

type duration time.Duration

// UnmarshalText reads what time.ParseDuration reads.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// strict reads JSON without unknown fields, and nothing after it.
func strict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("more than one object")
	}
	return nil
}
