package cloudsigma

import (
	"errors"
	"fmt"
	"net/http"

	"fairlead.io/sandbox/simulator"
)

// apiError is an unsuccessful answer.
type apiError struct {
	status               int
	kind, message, point string
}

func (e *apiError) Error() string { return fmt.Sprint(e.status, " ", e.message) }

func invalid(point, format string, args ...any) error {
	return &apiError{http.StatusBadRequest, "validation", fmt.Sprintf(format, args...), point}
}

func notExist(id string) error {
	return &apiError{http.StatusNotFound, "notexist", fmt.Sprintf("Object with uuid %s does not exist", id), ""}
}

func denied(u *User, permission, id string) error {
	return &apiError{http.StatusForbidden, "permission", fmt.Sprintf("User %s does not have all of the permissions [%s] in order to complete the operation on resources [%s]", u.UUID, permission, id), ""}
}

func unauthenticated(why string) error {
	return &apiError{http.StatusUnauthorized, "permission", why, ""}
}

func methodNotAllowed(method string) error {
	return &apiError{http.StatusMethodNotAllowed, "system", "Method " + method + " is not allowed", ""}
}

func (s *Simulator) failed(err error) simulator.Answer {
	var e *apiError
	if !errors.As(err, &e) {
		e = &apiError{http.StatusInternalServerError, "backend", err.Error(), ""}
	}
	return simulator.Answer{Status: e.status, Body: s.errorBody(e)}
}

// errorBody is in the form that a knob says.
func (s *Simulator) errorBody(e *apiError) any {
	var point any
	if e.point != "" {
		point = e.point
	}
	one := map[string]any{"error_type": e.kind, "error_message": e.message, "error_point": point}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.knobs.ErrorForm {
	case "object":
		return one
	case "html":
		return simulator.HTML(fmt.Sprintf("<html><head><title>%d</title></head><body><h1>%s</h1></body></html>", e.status, e.message))
	default:
		return []any{one}
	}
}

// Refusal is what the cloud says of a status.
func (s *Simulator) Refusal(status int, text string) any {
	kind := map[int]string{
		http.StatusBadRequest: "validation", http.StatusUnauthorized: "permission", http.StatusPaymentRequired: "billing", http.StatusForbidden: "permission",
		http.StatusNotFound: "notexist", http.StatusServiceUnavailable: "concurrency",
	}[status]
	if kind == "" {
		kind = "backend"
	}
	if text == "" {
		text = http.StatusText(status)
	}
	return s.errorBody(&apiError{status, kind, text, ""})
}
