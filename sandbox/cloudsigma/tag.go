package cloudsigma

import (
	"encoding/json"
	"slices"
)

// Tag is a name on resources. Several tags may have the same.
type Tag struct {
	UUID, Name, Owner string
	Resources         []string // UUIDs

	meta map[string]string
}

func (s *Simulator) ownTag(q *request, id string) (*Tag, error) {
	tag := s.tags.Get(id)
	switch {
	case tag == nil:
		return nil, notExist(id)
	case tag.Owner != q.user.UUID:
		return nil, denied(q.user, "LIST", id)
	}
	return tag, nil
}

func (s *Simulator) createTag(q *request, f fields) (any, error) {
	tag := &Tag{UUID: s.uuid(), Owner: q.user.UUID}
	if err := s.defineTag(q, tag, f); err != nil {
		return nil, err
	}
	s.tags.Add(tag.UUID, tag)
	return s.tagView(tag, true), nil
}

func (s *Simulator) updateTag(q *request, f fields) (any, error) {
	tag, err := s.ownTag(q, q.id)
	if err != nil {
		return nil, err
	}
	if err := s.defineTag(q, tag, f); err != nil {
		return nil, err
	}
	return s.tagView(tag, true), nil
}

func (s *Simulator) defineTag(q *request, tag *Tag, f fields) error {
	name, err := f.text("name")
	if err != nil {
		return err
	}
	if name == "" {
		return invalid("name", "This field is required")
	}
	meta, err := f.meta()
	if err != nil {
		return err
	}
	var raw []json.RawMessage
	if !f.null("resources") {
		if err := json.Unmarshal(f["resources"], &raw); err != nil {
			return invalid("resources", "A list is expected")
		}
	}
	resources := []string{}
	for _, one := range raw {
		id, object, ok := reference(one)
		switch {
		case !ok, object && s.knobs.TagForm == "strings", !object && s.knobs.TagForm == "objects":
			return invalid("resources", "Malformed resource")
		case s.resourceOwner(id) != q.user.UUID:
			return invalid("resources", "Resource %s does not exist", id)
		case !slices.Contains(resources, id):
			resources = append(resources, id)
		}
	}
	tag.Name, tag.Resources, tag.meta = name, resources, meta
	return nil
}

func (s *Simulator) kindOfResource(id string) Kind {
	switch {
	case s.ips.Get(id) != nil:
		return IPs
	case s.servers.Get(id) != nil:
		return Servers
	case s.vlans.Get(id) != nil:
		return VLANs
	default:
		return ""
	}
}

func (s *Simulator) resourceOwner(id string) string {
	switch s.kindOfResource(id) {
	case IPs:
		return s.ips.Get(id).Owner
	case Servers:
		return s.servers.Get(id).Owner
	case VLANs:
		return s.vlans.Get(id).Owner
	default:
		return ""
	}
}

func (s *Simulator) tagView(tag *Tag, whole bool) map[string]any {
	v := map[string]any{"uuid": tag.UUID, "name": tag.Name, "resource_uri": apiPrefix + "tags/" + tag.UUID + "/"}
	if !whole {
		return v
	}
	resources := []any{}
	for _, id := range tag.Resources {
		kind := string(s.kindOfResource(id))
		resources = append(resources, map[string]any{
			"uuid": id, "res_type": kind, "resource_uri": apiPrefix + kind + "/" + id + "/", "owner": s.ownerView(tag.Owner),
		})
	}
	v["resources"], v["owner"], v["meta"] = resources, s.ownerView(tag.Owner), tag.meta
	if tag.meta == nil {
		v["meta"] = map[string]string{}
	}
	return v
}

// tagsOf are the tags of a resource, as it names them.
func (s *Simulator) tagsOf(id string) []any {
	all := []any{}
	for tag := range s.tags.All() {
		if slices.Contains(tag.Resources, id) {
			all = append(all, s.tagView(tag, false))
		}
	}
	return all
}
