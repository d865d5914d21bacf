package cloudscale

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Error is a call that did not end well.
type Error struct {
	Method string
	Path   string // below the API's address, without the query

	// Status is what the cloud answered, or 0 if it did not.
	Status int
	// Messages are the cloud's words: for each field that it did not like, or
	// under "detail".
	Messages map[string]string
	// OutcomeUnknown is true of a write that may have been done although it
	// failed: the answer was lost, late, or not understood. Read before
	// writing again.
	OutcomeUnknown bool

	retryAfter time.Duration
	cause      error
}

// Detail is what the cloud says about it, as one line: "flavor: \"x\" is not a
// valid choice."
func (e *Error) Detail() string {
	var parts []string
	for _, field := range slices.Sorted(maps.Keys(e.Messages)) {
		if field == detailField {
			parts = append(parts, e.Messages[field])
		} else {
			parts = append(parts, field+": "+e.Messages[field])
		}
	}
	return strings.Join(parts, "; ")
}

func (e *Error) Error() string {
	what := fmt.Sprintf("%s %s", e.Method, e.Path)
	switch detail := e.Detail(); {
	case e.Status == 0:
		what += ": no answer"
	case detail == "":
		what += fmt.Sprintf(": %d %s", e.Status, http.StatusText(e.Status))
	default:
		what += fmt.Sprintf(": %d: %s", e.Status, detail)
	}
	if e.cause != nil {
		what += ": " + e.cause.Error()
	}
	return what
}

func (e *Error) Unwrap() error { return e.cause }

// Times to come back after, where the cloud does not say. A load balancer needs
// a few seconds for each change; a maintenance, minutes.
const (
	busyPause        = 5 * time.Second
	maintenancePause = 15 * time.Second
)

// RetryAfter tells whether the same call may succeed later although nobody does
// anything, and after which time to try it: the cloud is busy, in maintenance,
// did not answer, or has had too many calls.
func RetryAfter(err error) (time.Duration, bool) {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
		return 0, false
	case IsBusy(err), e.Status == 0:
		return cmp.Or(e.retryAfter, busyPause), true
	case e.Status == http.StatusTooManyRequests, e.Status >= 500:
		return cmp.Or(e.retryAfter, maintenancePause), true
	case e.OutcomeUnknown:
		return busyPause, true
	default:
		return 0, false
	}
}

// IsNotFound says that there is no such object; nothing else does.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// IsReadOnly says that the token may only read.
func IsReadOnly(err error) bool { return hasStatus(err, http.StatusForbidden) }

// IsUnauthorized says that the token is not, or no longer, a valid one.
func IsUnauthorized(err error) bool { return hasStatus(err, http.StatusUnauthorized) }

// IsOutcomeUnknown says that a write may or may not have been done.
func IsOutcomeUnknown(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.OutcomeUnknown
}

// IsInvalid says that the cloud does not accept what was asked for, and never
// will.
func IsInvalid(err error) bool { return hasStatus(err, http.StatusBadRequest) && !IsBusy(err) }

// IsBusy says that the object, or the load balancer it is in, is being changed.
// The cloud answers 400 then as well as to what it does not accept. But nothing
// is wrong in a DELETE, and what it does not accept it tells by field.
func IsBusy(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Status {
	case http.StatusConflict, http.StatusLocked:
		return true
	case http.StatusBadRequest:
		return e.Method == http.MethodDelete || tellsBusy(e.Messages[detailField])
	default:
		return false
	}
}

// tellsBusy recognises the words of a load balancer that is being changed. The
// cloud does not document them.
func tellsBusy(detail string) bool {
	detail = strings.ToLower(detail)
	return slices.ContainsFunc([]string{"changing", "being changed", "busy", "in progress", "pending", "immutable", "try again", "not ready"},
		func(word string) bool { return strings.Contains(detail, word) })
}

func hasStatus(err error, status int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == status
}

func errNoID(kind string) error { return fmt.Errorf("no id of a %s given", kind) }

const (
	detailField = "detail"
	// excerptMost is how much of an answer that is not understood is told.
	excerptMost = 120
)

// messages reads the body of an error: an object of field names and texts. Lists
// of texts are taken as well, and of anything else the beginning.
func messages(body []byte) map[string]string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		if text := excerpt(string(body)); text != "" {
			return map[string]string{detailField: text}
		}
		return nil
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
			text = excerpt(string(raw))
		}
		out[field] = text
	}
	return out
}

// excerpt is the beginning of a text, as one line.
func excerpt(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if runes := []rune(text); len(runes) > excerptMost {
		text = string(runes[:excerptMost]) + "…"
	}
	return text
}
