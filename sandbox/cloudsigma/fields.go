package cloudsigma

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"

	"fairlead.io/sandbox/simulator"
)

// fields of an object that was sent.
type fields map[string]json.RawMessage

// readBody reads what was sent. Only a POST or PUT has to have something.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) > simulator.MaxBody {
		return nil, invalid("", "The body is too large")
	}
	return body, nil
}

func readFields(raw []byte) (fields, error) {
	var f fields
	if err := json.Unmarshal(raw, &f); err != nil || f == nil {
		return nil, invalid("", "Malformed JSON: an object is expected")
	}
	return f, nil
}

// objects are those of {"objects": […]}, or a single one.
func (q *request) objects() ([]fields, error) {
	f, err := readFields(q.body)
	if err != nil {
		return nil, err
	}
	many, is := f["objects"]
	if !is {
		return []fields{f}, nil
	}
	var all []fields
	if err := json.Unmarshal(many, &all); err != nil || slices.ContainsFunc(all, func(f fields) bool { return f == nil }) {
		return nil, invalid("objects", "A list of objects is expected")
	}
	return all, nil
}

// null says whether a field is not there, or null.
func (f fields) null(name string) bool {
	raw, has := f[name]
	return !has || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// text is a field that has to be one, unless it is not there.
func (f fields) text(name string) (string, error) {
	if f.null(name) {
		return "", nil
	}
	var text string
	if err := json.Unmarshal(f[name], &text); err != nil {
		return "", invalid(name, "A string is expected")
	}
	return text, nil
}

// without returns a copy that lacks some fields.
func (f fields) without(names ...string) fields {
	c := maps.Clone(f)
	for _, name := range names {
		delete(c, name)
	}
	return c
}

// reference reads the ID of an object that is named by it, or by {"uuid": …}.
func reference(raw json.RawMessage) (id string, object, ok bool) {
	if json.Unmarshal(raw, &id) == nil {
		return id, false, id != ""
	}
	var o struct {
		UUID string `json:"uuid"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return "", true, false
	}
	return o.UUID, true, o.UUID != ""
}

// meta is a map of short keys to texts.
func (f fields) meta() (map[string]string, error) {
	if f.null("meta") {
		return map[string]string{}, nil
	}
	var meta map[string]string
	if err := json.Unmarshal(f["meta"], &meta); err != nil {
		return nil, invalid("meta", "Values have to be strings")
	}
	for key := range meta {
		if len(key) > 32 {
			return nil, invalid("meta", "Key %q is longer than 32 characters", key)
		}
	}
	return meta, nil
}

func parseAddr(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	return a, err == nil && a.Zone() == "" && !a.Is4In6()
}

func must(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // they are all ours
	}
	return raw
}
