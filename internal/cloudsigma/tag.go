package cloudsigma

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Tag is a name on resources: IPs, servers, and others. Names are not unique.
type Tag struct {
	UUID string
	Name string
	// Resources are UUIDs: of an IP, its address.
	Resources []string

	whole   bool              // the cloud has said which resources
	written map[string]string // resources as the cloud writes them
	raw     map[string]json.RawMessage
}

// tagReadOnly are the fields of a tag that are not sent back.
var tagReadOnly = []string{"resource_uri", "uuid", "owner", "permissions", "grantees"}

// UnmarshalJSON reads a tag, and keeps what it does not understand.
func (t *Tag) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return fmt.Errorf("read tag: %w", err)
	}
	var f struct {
		UUID      string      `json:"uuid"`
		Name      string      `json:"name"`
		Resources []reference `json:"resources"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("read tag: %w", err)
	}
	_, whole := raw["resources"]
	*t = Tag{UUID: f.UUID, Name: f.Name, whole: whole, written: make(map[string]string, len(f.Resources)), raw: raw}
	for _, r := range f.Resources {
		id := sameID(string(r))
		t.Resources, t.written[id] = append(t.Resources, id), string(r)
	}
	return nil
}

// Has says whether a resource has the tag.
func (t *Tag) Has(resource string) bool { return slices.Contains(t.Resources, resource) }

// definition is what a PUT or POST sends.
func (t *Tag) definition(asTexts bool) map[string]any {
	out := map[string]any{}
	for name, value := range t.raw {
		if !slices.Contains(tagReadOnly, name) {
			out[name] = value
		}
	}
	out["name"] = t.Name
	resources := make([]any, len(t.Resources))
	for i, r := range t.Resources {
		text := cmp.Or(t.written[r], r)
		if resources[i] = text; !asTexts {
			resources[i] = Ref{UUID: text}
		}
	}
	out["resources"] = resources
	return out
}

// TagChange is what is to be true of the tags of one name.
type TagChange struct {
	Name string
	// Add are resources that are to have the tag, Remove those that are not to.
	Add, Remove []string
	// DeleteEmpty deletes tags of the name that Remove leaves without a resource.
	DeleteEmpty bool
	// Claims: the tag says whose a resource is. It is added before all others, and
	// removed after them, so that whoever ends in between leaves nothing that nobody
	// owns.
	Claims bool
}

// made says whether it is so.
func (c *TagChange) made(tags []Tag) bool {
	for _, resource := range c.Add {
		if !slices.ContainsFunc(tags, func(t Tag) bool { return t.Name == c.Name && t.Has(resource) }) {
			return false
		}
	}
	for _, t := range tags {
		if t.Name == c.Name && slices.ContainsFunc(c.Remove, t.Has) {
			return false
		}
	}
	return true
}
