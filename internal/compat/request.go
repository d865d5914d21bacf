package compat

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/internal/lb"
)

// Readings of all dialects, in the order in which they add to a request. Our own
// comes first, and counts in every class.
type Readings []Named

// Named is a reading and whose it is.
type Named struct {
	Dialect Dialect
	Reading
}

// Of returns the reading of a dialect, or nil.
func (rs Readings) Of(name lb.Dialect) Reading {
	for _, r := range rs {
		if r.Dialect.Name() == name {
			return r.Reading
		}
	}
	return nil
}

// Pools of all dialects.
func (rs Readings) Pools() (out []lb.Pool) {
	for _, r := range rs {
		out = append(out, r.Pools()...)
	}
	return out
}

// Request is what s, a Service of type LoadBalancer in a namespace with labels, asks
// for. What cannot be understood is said in Request.Invalid.
func (rs Readings) Request(s *lb.Service, namespaceLabels map[string]string, in Class) lb.Request {
	r := base(s, namespaceLabels, in)
	stripped := s
	for _, d := range rs {
		if reads(d, in) {
			if st, ok := d.Reading.(Stripper); ok {
				stripped = st.Strip(stripped, in)
			}
		}
	}
	for _, d := range rs {
		if !reads(d, in) {
			continue
		}
		read := stripped
		if _, ok := d.Reading.(Stripper); ok {
			read = s
		}
		d.Amend(&r, read, in)
	}
	return r
}

func reads(d Named, in Class) bool {
	name := d.Dialect.Name()
	return name == lb.Native || name == in.Words || slices.Contains(in.Dialects, name)
}

// base is what a Service asks for in no words at all.
func base(s *lb.Service, namespaceLabels map[string]string, in Class) lb.Request {
	r := lb.Request{
		Service:         s.Key,
		UID:             s.UID,
		Created:         s.Created,
		Labels:          s.Labels,
		NamespaceLabels: namespaceLabels,
		Dialects:        in.Dialects,
		Families:        s.Families,
		Policy:          s.Policy,
		Backends:        backends(s),
		Ports:           s.PortList(),
		Lingers:         in.Lingers,
		Voice:           lb.Native,
	}
	if len(in.Dialects) > 0 {
		r.Voice = in.Dialects[0]
	}
	return r
}

// backends implements the traffic-policy rule of sharing, see lb.Request. A
// Service without selector has endpoints of its own making and shares with none.
func backends(s *lb.Service) string {
	switch {
	case !s.Local:
		return ""
	case len(s.Selector) == 0:
		return fmt.Sprintf("endpoints of %s", s.Key)
	}
	return labels.Set(s.Selector).String()
}

// Invalid adds reason to what is wrong with the Service of r.
func Invalid(r *lb.Request, reason lb.Reason) {
	if r.Invalid != nil {
		reason = r.Invalid.And(reason)
	}
	r.Invalid = &reason
}

// First returns dialects with d, one of them, before the others: of two pools of one
// name, a request in a dialect means that dialect's pool.
func First(d lb.Dialect, dialects []lb.Dialect) []lb.Dialect {
	if !slices.Contains(dialects, d) || dialects[0] == d {
		return dialects
	}
	return append([]lb.Dialect{d}, slices.DeleteFunc(slices.Clone(dialects), func(o lb.Dialect) bool { return o == d })...)
}
