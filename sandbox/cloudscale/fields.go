package cloudscale

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fairlead.io/sandbox/simulator"
)

// fields is the body of a request, and what is wrong with it. Its methods
// return what a field has; a field that is wrong is noted, and [fields.err]
// then answers for all of them together.
type fields struct {
	values map[string]json.RawMessage
	wrong  map[string]string
}

const maxText = 255

// readFields reads JSON, or a form, whose values are strings then.
func readFields(r *http.Request) (*fields, error) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, simulator.MaxBody+1))
	if err != nil {
		return nil, detail(http.StatusBadRequest, "The body could not be read.")
	}
	if len(raw) > simulator.MaxBody {
		return nil, detail(http.StatusRequestEntityTooLarge, "The body is too large.")
	}
	f := &fields{values: make(map[string]json.RawMessage)}
	if len(bytes.TrimSpace(raw)) == 0 {
		return f, nil
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && (media == "multipart/form-data" || media == "application/x-www-form-urlencoded"):
		r.Body = io.NopCloser(bytes.NewReader(raw))
		if err := r.ParseMultipartForm(simulator.MaxBody); err != nil && media == "multipart/form-data" {
			return nil, detail(http.StatusBadRequest, "Multipart form parse error.")
		}
		for key, values := range r.PostForm {
			if f.values[key], err = json.Marshal(values[len(values)-1]); err != nil {
				return nil, detail(http.StatusBadRequest, "Multipart form parse error.")
			}
		}
	case err != nil || media == "application/json":
		if err := json.Unmarshal(raw, &f.values); err != nil || f.values == nil {
			return nil, detail(http.StatusBadRequest, "JSON parse error - an object is expected.")
		}
	default:
		return nil, detail(http.StatusUnsupportedMediaType, "Unsupported media type \"%s\" in request.", media)
	}
	return f, nil
}

func (f *fields) fail(name, message string) {
	if f.wrong == nil {
		f.wrong = make(map[string]string)
	}
	if f.wrong[name] == "" {
		f.wrong[name] = message
	}
}

func (f *fields) err() error {
	if len(f.wrong) == 0 {
		return nil
	}
	return &apiError{http.StatusBadRequest, maps.Clone(f.wrong)}
}

// has reports whether the field is there, be it null.
func (f *fields) has(name string) bool { _, is := f.values[name]; return is }

func (f *fields) null(name string) bool { return string(f.values[name]) == "null" }

// require notes fields that are missing or null.
func (f *fields) require(names ...string) {
	for _, name := range names {
		switch {
		case !f.has(name):
			f.fail(name, "This field is required.")
		case f.null(name):
			f.fail(name, "This field may not be null.")
		}
	}
}

// fixed notes fields that cannot be changed.
func (f *fields) fixed(names ...string) {
	for _, name := range names {
		if f.has(name) {
			f.fail(name, "This field cannot be changed.")
		}
	}
}

// text returns otherwise if the field is not there.
func (f *fields) text(name, otherwise string) string {
	if !f.has(name) {
		return otherwise
	}
	var value string
	switch err := json.Unmarshal(f.values[name], &value); {
	case f.null(name):
		f.fail(name, "This field may not be null.")
	case err != nil:
		f.fail(name, "Not a valid string.")
	case strings.TrimSpace(value) == "":
		f.fail(name, "This field may not be blank.")
	case len(value) > maxText:
		f.fail(name, "Ensure this field has no more than 255 characters.")
	default:
		return value
	}
	return otherwise
}

// number also takes strings of digits, for those who send forms.
func (f *fields) number(name string, otherwise, least, most int) int {
	if !f.has(name) {
		return otherwise
	}
	var value json.Number
	err := json.Unmarshal(f.values[name], &value)
	n, notInt := strconv.Atoi(value.String())
	switch {
	case f.null(name):
		f.fail(name, "This field may not be null.")
	case err != nil || notInt != nil:
		f.fail(name, "A valid integer is required.")
	case n < least || n > most:
		if strings.HasSuffix(name, "_port") {
			f.fail(name, "The "+name+" must be between "+strconv.Itoa(least)+" and "+strconv.Itoa(most)+".")
			break
		}
		if n < least {
			f.fail(name, "Ensure this value is greater than or equal to "+strconv.Itoa(least)+".")
			break
		}
		f.fail(name, "Ensure this value is less than or equal to "+strconv.Itoa(most)+".")
	default:
		return n
	}
	return otherwise
}

func (f *fields) boolean(name string, otherwise bool) bool {
	if !f.has(name) {
		return otherwise
	}
	var value bool
	if err := json.Unmarshal(f.values[name], &value); err != nil || f.null(name) {
		switch string(f.values[name]) {
		case `"true"`:
			return true
		case `"false"`:
			return false
		}
		f.fail(name, "Must be a valid boolean.")
		return otherwise
	}
	return value
}

// oneOf returns a text that is one of the choices.
func (f *fields) oneOf(name, otherwise string, choices ...string) string {
	value := f.text(name, otherwise)
	if f.has(name) && f.wrong[name] == "" && !slices.Contains(choices, value) {
		f.fail(name, "\""+value+"\" is not valid. Expect one of: "+strings.Join(choices, ", ")+".")
		return otherwise
	}
	return value
}

var (
	uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	digits      = regexp.MustCompile(`^[0-9]+$`)
)

// reference returns a UUID, in lower case.
func (f *fields) reference(name string) string {
	value := strings.ToLower(f.text(name, ""))
	if value != "" && !uuidPattern.MatchString(value) {
		f.fail(name, "Must be a valid UUID.")
		return ""
	}
	return value
}

func (f *fields) missing(name, what, id string) {
	f.fail(name, what+" \""+id+"\" does not exist.")
}

func (f *fields) address(name string) netip.Addr {
	value := f.text(name, "")
	if value == "" {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(value)
	if err != nil || a.Zone() != "" {
		f.fail(name, "Enter a valid IPv4 or IPv6 address.")
		return netip.Addr{}
	}
	return a
}

// prefixes takes networks only: neither addresses, nor prefixes with bits of a host.
func (f *fields) prefixes(name string, otherwise []netip.Prefix) []netip.Prefix {
	texts, given := f.texts(name)
	if !given {
		return otherwise
	}
	all := []netip.Prefix{}
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() {
			f.fail(name, "Enter a valid network address in CIDR notation.")
			return otherwise
		}
		all = append(all, p)
	}
	return all
}

// texts returns a list of strings, and whether there is one.
func (f *fields) texts(name string) ([]string, bool) {
	if !f.has(name) {
		return nil, false
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(f.values[name], &raw); err != nil || f.null(name) {
		f.fail(name, "Expected a list of items.")
		return nil, false
	}
	all := make([]string, 0, len(raw))
	for _, r := range raw {
		text := string(r)
		if err := json.Unmarshal(r, &text); err != nil && !digits.Match(r) {
			f.fail(name, "Not a valid string.")
			return nil, false
		}
		all = append(all, text)
	}
	return all, true
}

// objects returns a list of objects, and whether there is one.
func (f *fields) objects(name string) ([]*fields, bool) {
	if !f.has(name) {
		return nil, false
	}
	var raw []map[string]json.RawMessage
	if err := json.Unmarshal(f.values[name], &raw); err != nil || f.null(name) {
		f.fail(name, "Expected a list of items.")
		return nil, false
	}
	all := make([]*fields, 0, len(raw))
	for _, values := range raw {
		if values == nil {
			values = map[string]json.RawMessage{}
		}
		all = append(all, &fields{values: values})
	}
	return all, true
}

// object returns an object, or nil if there is none, or null.
func (f *fields) object(name string) *fields {
	if !f.has(name) || f.null(name) {
		return nil
	}
	inner := &fields{values: make(map[string]json.RawMessage)}
	if err := json.Unmarshal(f.values[name], &inner.values); err != nil {
		f.fail(name, "Expected an object.")
		return nil
	}
	return inner
}

// take notes under name what is wrong with an inner object.
func (f *fields) take(name string, inner *fields) {
	for _, field := range slices.Sorted(maps.Keys(inner.wrong)) {
		f.fail(name, field+": "+inner.wrong[field])
	}
}

func (f *fields) tags(otherwise map[string]string) map[string]string {
	if !f.has("tags") {
		return otherwise
	}
	var tags map[string]string
	if err := json.Unmarshal(f.values["tags"], &tags); err != nil || tags == nil {
		f.fail("tags", "Expected a dictionary of strings.")
		return otherwise
	}
	for key, value := range tags {
		if key == "" || len(key) > maxText || len(value) > maxText {
			f.fail("tags", "Keys and values have up to 255 characters, keys at least one.")
			return otherwise
		}
	}
	return tags
}
