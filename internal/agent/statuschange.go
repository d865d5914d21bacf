package agent

import (
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"

	"fairlead.io/api/v1alpha1"
)

// changesOf returns the fields of a status that have to be written, so that an object
// that says have says want; nil removes one. A condition keeps the time of its last
// transition. Without have, all fields of want are in it.
func changesOf(have, want *v1alpha1.AgentStatus) map[string]any {
	wanted := *want
	if have != nil {
		wanted.Conditions = nil
		for _, c := range want.Conditions {
			// If the controller wrote another status later, that was the last transition
			// but one: this one shows that the agent is alive.
			if old := meta.FindStatusCondition(have.Conditions, c.Type); old != nil && (old.Status == c.Status || c.LastTransitionTime.Before(&old.LastTransitionTime)) {
				c.LastTransitionTime = old.LastTransitionTime
			}
			wanted.Conditions = append(wanted.Conditions, c)
		}
	}
	out := fieldsOf(&wanted)
	if have == nil || len(have.Conditions) == 0 { // nobody has written it yet
		return out
	}
	before := fieldsOf(have)
	for name := range before {
		if now, there := out[name]; !there {
			out[name] = nil
		} else if reflect.DeepEqual(now, before[name]) {
			delete(out, name)
		}
	}
	return out
}

// fieldsOf returns a status as the API server has it. The number of addresses is
// there also if it is 0: kubectl shows it.
func fieldsOf(s *v1alpha1.AgentStatus) map[string]any {
	data, err := json.Marshal(s)
	out := map[string]any{}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic(err) // a status can be written
	}
	if s.Announced == 0 {
		out["announced"] = float64(0)
	}
	return out
}
