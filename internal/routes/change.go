package routes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
)

// Annotation of a Vpc: the policy routes that were made here, by Service.
const Annotation = "fairlead.io/policy-routes"

// book has the routes that were made, by Service.
type book map[string][]kubeovn.PolicyRoute

// Services are those, as namespace/name, for which routes were made in a Vpc.
func Services(vpc *kubeovn.Vpc) []string { return slices.Sorted(maps.Keys(read(vpc))) }

// Broken are the Services whose routes somebody has removed from a Vpc.
func Broken(vpc *kubeovn.Vpc) (out []string) {
	all := read(vpc)
	for _, service := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(all[service], func(r kubeovn.PolicyRoute) bool { return !slices.Contains(vpc.Spec.PolicyRoutes, r) }) {
			out = append(out, service)
		}
	}
	return out
}

// read reads the annotation. What cannot be read was not made here.
func read(vpc *kubeovn.Vpc) book {
	var texts map[string][]string
	if err := json.Unmarshal([]byte(vpc.Annotations[Annotation]), &texts); err != nil {
		return book{}
	}
	out := book{}
	for service, list := range texts {
		for _, text := range list {
			if via, match, ok := strings.Cut(text, " "); ok {
				out[service] = append(out[service], kubeovn.PolicyRoute{Priority: priority, Action: reroute, Match: match, NextHopIP: via})
			}
		}
	}
	return out
}

func (b book) String() string {
	texts := map[string][]string{}
	for service, list := range b {
		for _, r := range list {
			texts[service] = append(texts[service], r.NextHopIP+" "+r.Match)
		}
	}
	raw, err := json.Marshal(texts)
	if err != nil { // only text
		panic(fmt.Sprintf("marshal routes: %v", err))
	}
	return string(raw)
}

// hasElsewhere says whether another Service has a route, too.
func (b book) hasElsewhere(service string, r kubeovn.PolicyRoute) bool {
	for other, list := range b {
		if other != service && slices.Contains(list, r) {
			return true
		}
	}
	return false
}

// Change is the step that gives a Service the routes that it needs, and takes away those
// that were made for it and that it does not need any more. ok is false if nothing has to
// be done. A route that somebody else has made serves as well. Of two with the same match,
// the one that is there stays: OVN would use either.
func Change(vpc *kubeovn.Vpc, service string, needed []kubeovn.PolicyRoute) (step lb.Step, ok bool) {
	made := read(vpc)
	var now, added, removed []kubeovn.PolicyRoute
	for _, r := range made[service] {
		if !slices.Contains(needed, r) && !made.hasElsewhere(service, r) && slices.Contains(vpc.Spec.PolicyRoutes, r) {
			removed = append(removed, r)
		}
	}
	for _, r := range needed {
		there := slices.Contains(vpc.Spec.PolicyRoutes, r)
		ours := slices.Contains(made[service], r) || made.hasElsewhere(service, r)
		switch {
		case there && !ours:
			continue
		case !there && slices.ContainsFunc(vpc.Spec.PolicyRoutes, func(other kubeovn.PolicyRoute) bool {
			return other.Priority == r.Priority && other.Match == r.Match && !slices.Contains(removed, other)
		}):
			continue
		case !there && !slices.ContainsFunc(added, func(other kubeovn.PolicyRoute) bool { return other.Match == r.Match }):
			added = append(added, r)
		case !there:
			continue
		}
		now = append(now, r)
	}
	if len(added)+len(removed) == 0 && slices.Equal(now, made[service]) {
		return lb.Step{}, false
	}
	if made[service] = now; len(now) == 0 {
		delete(made, service)
	}
	var changes []lb.Change
	for _, r := range removed {
		changes = append(changes, lb.Change{Field: "policyRoutes", From: text(r), To: "none"})
	}
	for _, r := range added {
		changes = append(changes, lb.Change{Field: "policyRoutes", From: "none", To: text(r)})
	}
	if len(changes) == 0 {
		changes = append(changes, lb.Change{Field: Annotation, From: vpc.Annotations[Annotation], To: made.String()})
	}
	return lb.Step{Verb: lb.VerbUpdate, Kind: "Vpc", Name: vpc.Name, ID: string(vpc.UID), Changes: changes,
		Body: eip.Write{Object: vpc, Patch: patch(vpc, made, added, removed), JSONPatch: true}}, true
}

func text(r kubeovn.PolicyRoute) string { return r.Match + " via " + r.NextHopIP }

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch changes the list entry by entry, for entries of others may have fields that are not
// known here. It fails with a conflict if the Vpc has changed.
func patch(vpc *kubeovn.Vpc, made book, added, removed []kubeovn.PolicyRoute) []byte {
	ops := []operation{{"replace", "/metadata/resourceVersion", vpc.ResourceVersion}}
	for i := len(vpc.Spec.PolicyRoutes) - 1; i >= 0; i-- {
		if j := slices.Index(removed, vpc.Spec.PolicyRoutes[i]); j >= 0 {
			removed = slices.Delete(slices.Clone(removed), j, j+1) // one of twins is somebody else's
			ops = append(ops, operation{Op: "remove", Path: fmt.Sprintf("/spec/policyRoutes/%d", i)})
		}
	}
	if len(vpc.Spec.PolicyRoutes) == 0 && len(added) > 0 {
		ops = append(ops, operation{"add", "/spec/policyRoutes", []kubeovn.PolicyRoute{}})
	}
	for _, r := range added {
		ops = append(ops, operation{"add", "/spec/policyRoutes/-", r})
	}
	escaped := "/metadata/annotations/" + strings.ReplaceAll(Annotation, "/", "~1")
	_, has := vpc.Annotations[Annotation]
	switch {
	case len(made) > 0:
		if vpc.Annotations == nil {
			ops = append(ops, operation{"add", "/metadata/annotations", map[string]string{}})
		}
		ops = append(ops, operation{"add", escaped, made.String()})
	case has:
		ops = append(ops, operation{Op: "remove", Path: escaped})
	}
	raw, err := json.Marshal(ops)
	if err != nil { // only text and numbers
		panic(fmt.Sprintf("marshal a patch: %v", err))
	}
	return raw
}
