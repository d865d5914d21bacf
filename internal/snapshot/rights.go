package snapshot

import (
	"slices"

	"fairlead.io/internal/controller"
)

// What may not be read is neither a tick nor a cross: whatever rests on it is Unclear. What
// the controller and the agents have written is known without it.

// addressSources are the resources that decide which addresses a Service has.
var addressSources = []string{"pods", "pools", "ipaddresspools", "configmaps", "namespaces", "nodes", "servicecidrs"}

// announceSources are the resources that decide which nodes announce an address.
var announceSources = slices.Concat([]string{"pods", "pools", "ipaddresspools", "l2advertisements", "configmaps", "namespaces", "endpointslices"}, routeResources())

func routeResources() (out []string) {
	for _, k := range routeKinds() {
		out = append(out, k.resource)
	}
	return out
}

// cannot says whether the right to list a resource is missing.
func (s *Snapshot) cannot(resource string) bool { return s.refused[resource] != "" }

// refuse notes that a resource may not be listed.
func (s *Snapshot) refuse(resource string) { s.refuseAs(resource, "cannot list "+resource) }

// refuseAs notes why a resource is not known.
func (s *Snapshot) refuseAs(resource, why string) {
	if !s.cannot(resource) {
		s.refused[resource] = why
		s.Unknown = append(s.Unknown, why)
	}
}

// unread is why one of these resources is not known; "" if all are.
func (s *Snapshot) unread(resources ...string) string {
	for _, r := range resources {
		if why := s.refused[r]; why != "" {
			return why
		}
	}
	return ""
}

// undecided is why it is not known which address a Service should have; "" if it is. A
// Service on which the controller has written needs no decision.
func (s *Snapshot) undecided(of *controller.Surveyed) string {
	if of.Says != nil {
		return ""
	}
	return s.Undecided()
}

// Undecided is why it is not known which addresses Services should have; "" if it is.
func (s *Snapshot) Undecided() string {
	if s.Install.Assumed != "" {
		return s.Install.Assumed
	}
	return s.unread(addressSources...)
}

// Unelected is why it is not known which nodes should announce an address; "" if it is.
func (s *Snapshot) Unelected() string {
	if s.Install.Assumed != "" {
		return s.Install.Assumed
	}
	return s.unread(announceSources...)
}

// unclear is a step about which nothing is known.
func unclear(name, why string) Step { return Step{Name: name, Mark: Unclear, Fact: "unknown: " + why} }
