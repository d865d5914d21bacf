package eip

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// Write is the body of a step: how one object is written. Each is safe to repeat: an
// object to be created that is there already, and one to be deleted that is gone, are
// done; a patch or a deletion of an older version fails with a conflict, and the next
// look decides anew.
type Write struct {
	// Object to be created, as it shall be; or as it was read.
	Object compat.Object
	// Patch of an update: a JSON merge patch that has the version that was read; or a JSON
	// patch that has it.
	Patch     []byte
	JSONPatch bool
	// Status says that the patch is for the subresource.
	Status bool
}

// Preconditions of a deletion.
func (w Write) Preconditions() metav1.Preconditions {
	uid, version := w.Object.GetUID(), w.Object.GetResourceVersion()
	return metav1.Preconditions{UID: &uid, ResourceVersion: &version}
}

func create(kind string, o compat.Object, why string) lb.Step {
	return lb.Step{Verb: lb.VerbCreate, Kind: kind, Name: nameOf(o), Why: why, Body: Write{Object: o}}
}

func remove(kind string, o compat.Object, why string, impact lb.Impact) lb.Step {
	return lb.Step{Verb: lb.VerbDelete, Kind: kind, Name: nameOf(o), ID: string(o.GetUID()), Why: why, Impact: impact, Body: Write{Object: o}}
}

// patch updates the top-level parts of an object, such as "status".
func patch(kind string, o compat.Object, parts map[string]any, status bool, changes ...lb.Change) lb.Step {
	metadata, _ := parts["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = o.GetResourceVersion()
	parts["metadata"] = metadata
	raw, err := json.Marshal(parts)
	if err != nil { // only strings, numbers and lists of them
		panic(fmt.Sprintf("marshal a patch: %v", err))
	}
	return lb.Step{Verb: lb.VerbUpdate, Kind: kind, Name: nameOf(o), ID: string(o.GetUID()), Changes: changes, Body: Write{Object: o, Patch: raw, Status: status}}
}

func nameOf(o compat.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}
