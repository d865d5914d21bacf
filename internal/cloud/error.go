package cloud

import (
	"cmp"
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
	// Type is the cloud's word for this sort of error, if it has such words.
	Type string
	// Messages are the cloud's words: by the field that it did not like, or under
	// Detail.
	Messages map[string]string
	// Busy says that the object is being changed, and that the same call may
	// succeed later.
	Busy bool
	// OutcomeUnknown is true of a write that may have been done although it
	// failed: the answer was lost, late, or not understood. Read before
	// writing again.
	OutcomeUnknown bool

	retryAfter time.Duration
	renewed    bool // the next attempt has another proof of who we are
	cause      error
}

// Detail is the name under which Messages have what is about no field.
const Detail = "detail"

// Detail is what the cloud says about it, as one line: "flavor: \"x\" is not a
// valid choice."
func (e *Error) Detail() string {
	var parts []string
	for _, field := range slices.Sorted(maps.Keys(e.Messages)) {
		if field == Detail {
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

// unsent is e as the error of a call that was not sent: it could not be
// authorized. If the server that gives tokens has answered, its answer counts. But
// it never says anything about the object: what it does not find or accept are
// credentials.
func (e *Error) unsent(err error) *Error {
	e.cause = err
	answered, ok := errors.AsType[*Error](err)
	if !ok {
		return e
	}
	e.retryAfter = answered.retryAfter
	switch s := answered.Status; {
	case s == http.StatusForbidden, s == http.StatusTooManyRequests, s >= 500:
		e.Status = s
	case s >= 400:
		e.Status = http.StatusUnauthorized
	}
	return e
}

// Times to come back after, where the cloud does not say. A busy object needs a
// few seconds for each change; a maintenance, minutes.
const (
	busyPause        = 5 * time.Second
	maintenancePause = 15 * time.Second
)

// RetryAfter says whether the same call may succeed later although nobody does
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

// IsForbidden says that the credentials are valid, but do not allow the call.
func IsForbidden(err error) bool { return hasStatus(err, http.StatusForbidden) }

// IsUnauthorized says that the credentials are not, or no longer, valid.
func IsUnauthorized(err error) bool { return hasStatus(err, http.StatusUnauthorized) }

// IsOutcomeUnknown says that a write may or may not have been done.
func IsOutcomeUnknown(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.OutcomeUnknown
}

// IsInvalid says that the cloud does not accept what was asked for, and never
// will.
func IsInvalid(err error) bool { return hasStatus(err, http.StatusBadRequest) && !IsBusy(err) }

// IsBusy says that the object, or what it belongs to, is being changed.
func IsBusy(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Busy || e.Status == http.StatusConflict || e.Status == http.StatusLocked)
}

func hasStatus(err error, status int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == status
}

// maxExcerpt is how much is shown of an answer that is not understood.
const maxExcerpt = 120

// Plain is the message in a body that is not understood: its beginning. It is
// nil if there is nothing.
func Plain(body []byte) map[string]string {
	if text := Excerpt(string(body)); text != "" {
		return map[string]string{Detail: text}
	}
	return nil
}

// Excerpt is the beginning of a text, as one line.
func Excerpt(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if runes := []rune(text); len(runes) > maxExcerpt {
		text = string(runes[:maxExcerpt]) + "…"
	}
	return text
}
