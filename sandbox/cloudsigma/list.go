package cloudsigma

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// defaultLimit is how many objects a list has unless somebody asks for another
// number. 0 is all.
const defaultLimit = 20

// item is an object in a list, and what lists can be filtered by.
type item struct {
	view       any
	uuid, name string
}

// list answers with the objects of a kind that the user has.
func (s *Simulator) list(q *request) (int, any, error) {
	var items []item
	switch q.kind {
	case Servers:
		for server := range s.servers.All() {
			if server.Owner == q.user.UUID {
				items = append(items, item{s.serverView(server, q.detail), server.UUID, server.Name})
			}
		}
	case IPs:
		for ip := range s.ips.All() {
			if s.sees(q.user, ip) {
				items = append(items, item{s.ipView(ip, q.detail), ip.Address.String(), ""})
			}
		}
	case Tags:
		for tag := range s.tags.All() {
			if tag.Owner == q.user.UUID {
				items = append(items, item{s.tagView(tag, q.detail == (s.knobs.TagLists == "detail")), tag.UUID, tag.Name})
			}
		}
		return s.page(q, items) // they cannot be filtered
	case Subscriptions:
		for sub := range s.subscriptions.All() {
			if sub.Owner == q.user.UUID && sub.matches(q) {
				items = append(items, item{view: subscriptionView(sub)})
			}
		}
		return s.page(q, items)
	case VLANs:
		for vlan := range s.vlans.All() {
			if vlan.Owner == q.user.UUID {
				items = append(items, item{s.vlanView(vlan), vlan.UUID, ""})
			}
		}
	}
	items = slices.DeleteFunc(items, func(i item) bool { return !s.wanted(q, i) })
	return s.page(q, items)
}

// listTagged answers with the resources of a tag.
func (s *Simulator) listTagged(q *request) (int, any, error) {
	tag, err := s.ownTag(q, q.id)
	if err != nil {
		return 0, nil, err
	}
	items := []item{}
	for _, id := range tag.Resources {
		if kind := s.kindOfResource(id); kind == q.of {
			of := *q
			of.kind = kind
			if view, err := s.view(&of, id); err == nil {
				items = append(items, item{view: view})
			}
		}
	}
	return s.page(q, items)
}

func (s *Simulator) listAll(q *request, all []any) (int, any, error) {
	items := []item{}
	for _, one := range all {
		items = append(items, item{view: one})
	}
	return s.page(q, items)
}

// wanted says whether an object passes the filters: a comma means or.
func (s *Simulator) wanted(q *request, i item) bool {
	one := func(key, is string) bool {
		given := q.query.Get(key)
		return given == "" || slices.Contains(strings.Split(given, ","), is)
	}
	if part := q.query.Get("name__contains"); part != "" && !strings.Contains(i.name, part) {
		return false
	}
	if wants := q.query.Get("tag"); wants != "" {
		tagged := false
		for id := range strings.SplitSeq(wants, ",") {
			tag := s.tags.Get(id)
			tagged = tagged || tag != nil && slices.Contains(tag.Resources, i.uuid)
		}
		if !tagged {
			return false
		}
	}
	return one("name", i.name) && one("uuid", i.uuid)
}

// page cuts a list as it is asked for.
func (s *Simulator) page(q *request, items []item) (int, any, error) {
	number := func(key string, otherwise int) (int, error) {
		text := q.query.Get(key)
		if text == "" {
			return otherwise, nil
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return 0, invalid(key, "Invalid %s %q", key, text)
		}
		return n, nil
	}
	limit, err := number("limit", defaultLimit)
	if err != nil {
		return 0, nil, err
	}
	offset, err := number("offset", 0)
	if err != nil {
		return 0, nil, err
	}
	from, n := min(offset, len(items)), limit
	if n == 0 {
		n = len(items)
	}
	if s.knobs.MaxPage > 0 {
		n = min(n, s.knobs.MaxPage)
	}
	views := []any{}
	for _, i := range items[from:min(from+min(n, len(items)), len(items))] {
		views = append(views, i.view)
	}
	return http.StatusOK, map[string]any{
		"meta": map[string]int{"limit": limit, "offset": offset, "total_count": len(items)}, "objects": views,
	}, nil
}
