package cloudsigma

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"fairlead.io/internal/cloud"
)

// Types of errors, in the cloud's words. There are others.
const (
	typeConcurrency = "concurrency"
	typeBilling     = "billing"
	typePayment     = "payment"
)

// IsBilling says that the account lacks the money, or a subscription, for the call.
// It succeeds when somebody has paid.
func IsBilling(err error) bool {
	e, ok := errors.AsType[*cloud.Error](err)
	return ok && (e.Status == http.StatusPaymentRequired || e.Type == typeBilling || e.Type == typePayment)
}

// IsConcurrency says that somebody else changes the same object at this time. It is
// a busy error, too.
func IsConcurrency(err error) bool {
	e, ok := errors.AsType[*cloud.Error](err)
	return ok && e.Type == typeConcurrency
}

// IgnoredError is a change that the cloud has accepted and not made: what it has
// afterwards is not what was sent.
type IgnoredError struct {
	Kind string // server, tag
	ID   string
}

func (e *IgnoredError) Error() string {
	return fmt.Sprintf("CloudSigma accepted a change of %s %s, but did not make it", e.Kind, e.ID)
}

// IsIgnored says that the cloud has accepted a change and not made it.
func IsIgnored(err error) bool {
	_, ok := errors.AsType[*IgnoredError](err)
	return ok
}

// explanation is one element of the body of an error.
type explanation struct {
	Type    string `json:"error_type"`
	Message string `json:"error_message"`
	Point   string `json:"error_point"` // the field that is wrong

	// Other APIs behind the same host, and Keycloak, have these.
	Detail           string `json:"detail"`
	OAuthError       string `json:"error"`
	OAuthDescription string `json:"error_description"`
}

// explain reads the body of an error: an array, sometimes a single object. A proxy
// answers in HTML.
func explain(e *cloud.Error, body []byte) {
	all := explanations(body)
	e.Messages = map[string]string{}
	for _, one := range all {
		if e.Type == "" {
			e.Type = strings.ToLower(cloud.Excerpt(one.Type))
		}
		text := one.text()
		if text == "" {
			continue
		}
		where := cloud.Detail
		if one.Point != "" {
			where = cloud.Excerpt(one.Point)
		}
		if before := e.Messages[where]; before != "" {
			text = before + " " + text
		}
		e.Messages[where] = cloud.Excerpt(text)
	}
	if len(e.Messages) == 0 {
		e.Messages = cloud.Plain(withoutTags(body))
	}
	e.Busy = e.Type == typeConcurrency
}

func (e explanation) text() string {
	for _, text := range []string{e.Message, e.Detail, e.OAuthDescription, e.OAuthError, e.Type} {
		if text != "" {
			return text
		}
	}
	return ""
}

func explanations(body []byte) []explanation {
	var many []json.RawMessage
	if json.Unmarshal(body, &many) != nil {
		many = []json.RawMessage{body}
	}
	var all []explanation
	for _, raw := range many {
		var one explanation
		if json.Unmarshal(raw, &one) == nil {
			all = append(all, one)
		}
	}
	return all
}

// withoutTags leaves the words of an HTML page.
func withoutTags(body []byte) []byte {
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		return body
	}
	var out bytes.Buffer
	inside := false
	for _, b := range body {
		switch {
		case b == '<':
			inside = true
			out.WriteByte(' ')
		case b == '>':
			inside = false
		case !inside:
			out.WriteByte(b)
		}
	}
	return out.Bytes()
}

func errNoID(kind string) error { return fmt.Errorf("missing %s ID", kind) }
