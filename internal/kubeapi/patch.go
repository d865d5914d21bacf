package kubeapi

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/lb"
)

// Patches are the strategic merge patches that make a Service say what an outcome
// says. Each carries the resourceVersion that the decision was made on, so that it
// fails rather than overwrites what somebody else has written since.
type Patches struct {
	// Object is for the Service itself, nil unless its spec changes: everything else
	// goes with the status, in one write.
	Object []byte
	// Status is for the status subresource. If there is an Object, it has to be made
	// again for what that makes of the Service.
	Status []byte
}

// Empty says that the Service says so already.
func (p Patches) Empty() bool { return p.Object == nil && p.Status == nil }

// Patch compares s with an outcome.
func Patch(s *lb.Service, o *lb.Outcome, now time.Time) Patches {
	metadata := marks(s, &o.Marks)
	status := map[string]any{}
	if o.Ingress != nil && !slices.Equal(s.Ingress, o.Ingress) {
		status["loadBalancer"] = map[string]any{"ingress": orNil(Ingress(o.Ingress))}
	}
	if changes := conditions(s, o, now); len(changes) > 0 {
		status["conditions"] = changes
	}
	if ip := o.Marks.LoadBalancerIP; ip != nil && *ip != s.LoadBalancerIP {
		spec := map[string]any{"loadBalancerIP": nil}
		if *ip != "" {
			spec["loadBalancerIP"] = *ip
		}
		return Patches{Object: marshal(s, metadata, "spec", spec), Status: marshal(s, map[string]any{}, "status", status)}
	}
	return Patches{Status: marshal(s, metadata, "status", status)}
}

// orNil makes an empty list one that removes what is there.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// marks are the changes of metadata.
func marks(s *lb.Service, m *lb.Marks) map[string]any {
	metadata := map[string]any{}
	if changes := differences(s.Annotations, m.Annotations); len(changes) > 0 {
		metadata["annotations"] = changes
	}
	if changes := differences(s.Labels, m.Labels); len(changes) > 0 {
		metadata["labels"] = changes
	}
	if added := slices.DeleteFunc(slices.Clone(m.Finalizers), func(f string) bool { return slices.Contains(s.Finalizers, f) }); len(added) > 0 {
		metadata["finalizers"] = added
	}
	if removed := slices.DeleteFunc(slices.Clone(m.Removed), func(f string) bool { return !slices.Contains(s.Finalizers, f) }); len(removed) > 0 {
		metadata["$deleteFromPrimitiveList/finalizers"] = removed
	}
	return metadata
}

// differences are the changes that give have the values of want, "" being one that
// is not there. A value of nil removes one.
func differences(have, want map[string]string) map[string]any {
	changes := map[string]any{}
	for key, value := range want {
		now, ok := have[key]
		switch {
		case value == "" && ok:
			changes[key] = nil
		case value != now:
			changes[key] = value
		}
	}
	return changes
}

func marshal(s *lb.Service, metadata map[string]any, field string, fields map[string]any) []byte {
	if len(metadata) == 0 && len(fields) == 0 {
		return nil
	}
	metadata["resourceVersion"] = s.Version
	patch := map[string]any{"metadata": metadata}
	if len(fields) > 0 {
		patch[field] = fields
	}
	data, err := json.Marshal(patch)
	if err != nil { // maps of strings, lists and API types always marshal
		panic(err)
	}
	return data
}

// conditions are the changes of our conditions. While all is well, there is none about
// announcing.
func conditions(s *lb.Service, o *lb.Outcome, now time.Time) (changes []any) {
	change := func(kind string, have *lb.Condition, want *lb.Reason) {
		switch {
		case want != nil && !says(have, *want):
			changes = append(changes, condition(kind, have, *want, now))
		case want == nil && have != nil:
			changes = append(changes, map[string]any{"$patch": "delete", "type": kind})
		}
	}
	switch o.Condition {
	case lb.ConditionStays:
	case lb.ConditionSays:
		change(ConditionReady, s.Says, &o.Reason)
		change(ConditionAnnounced, s.Unannounced, o.Unannounced)
	case lb.ConditionGoes:
		change(ConditionReady, s.Says, nil)
		change(ConditionAnnounced, s.Unannounced, nil)
	}
	switch placed := o.Carriers; {
	case s.Carriers != nil && (o.Condition == lb.ConditionGoes || placed != nil && len(placed) == 0):
		changes = append(changes, map[string]any{"$patch": "delete", "type": ConditionPlaced})
	case len(placed) > 0 && !placed.Equal(s.Carriers):
		changes = append(changes, metav1.Condition{Type: ConditionPlaced, Status: metav1.ConditionTrue,
			Reason: reasonPlaced, Message: placed.String(), LastTransitionTime: metav1.NewTime(now)})
	}
	return changes
}

func says(have *lb.Condition, r lb.Reason) bool {
	return have != nil && have.True == r.Ready() && have.Code == r.Code && have.Text == r.Text
}

func condition(kind string, have *lb.Condition, r lb.Reason, now time.Time) metav1.Condition {
	c := metav1.Condition{
		Type:               kind,
		Status:             Status(r),
		Reason:             string(r.Code),
		Message:            r.Text,
		LastTransitionTime: metav1.NewTime(now),
	}
	if have != nil && have.True == r.Ready() {
		c.LastTransitionTime = metav1.NewTime(have.Since)
	}
	return c
}

// Status of a condition that says r.
func Status(r lb.Reason) metav1.ConditionStatus {
	if r.Ready() {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}
