package cloudscale

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"fairlead.io/internal/cloud"
)

// explain reads the body of an error. The cloud answers 400 to what it does not
// accept, and also while the object, or the load balancer it is in, is being
// changed. But nothing is wrong in a DELETE, and what it does not accept it
// reports by field.
func explain(e *cloud.Error, body []byte) {
	e.Messages = messages(body)
	if e.Status == http.StatusBadRequest {
		e.Busy = e.Method == http.MethodDelete || saysBusy(e.Messages[cloud.Detail])
	}
}

// saysBusy recognises the words of a load balancer that is being changed. The
// cloud does not document them.
func saysBusy(detail string) bool {
	detail = strings.ToLower(detail)
	return slices.ContainsFunc([]string{"changing", "being changed", "busy", "in progress", "pending", "immutable", "try again", "not ready"},
		func(word string) bool { return strings.Contains(detail, word) })
}

// messages reads the body of an error: an object of field names and texts. Lists
// of texts are taken as well, and of anything else the beginning.
func messages(body []byte) map[string]string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return cloud.Plain(body)
	}
	out := make(map[string]string, len(fields))
	for field, raw := range fields {
		var text string
		var list []string
		switch {
		case json.Unmarshal(raw, &text) == nil:
		case json.Unmarshal(raw, &list) == nil:
			text = strings.Join(list, " ")
		default:
			text = cloud.Excerpt(string(raw))
		}
		out[field] = text
	}
	return out
}

func errNoID(kind string) error { return fmt.Errorf("missing %s ID", kind) }
