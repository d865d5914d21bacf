package cloudsigma

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"fairlead.io/internal/cloud"
)

// page is an answer to a request for a list.
type page struct {
	Meta struct {
		TotalCount *int `json:"total_count"`
	} `json:"meta"`
	Objects *[]json.RawMessage `json:"objects"`
}

// maxListings is how often a list is begun from its first page because it changed
// while its pages were read.
const maxListings = 3

// errListChanges is temporary: the list changes faster than it can be read.
var errListChanges = errors.New("the list changed while it was read")

// List reads all objects. The cloud returns 20 unless it is asked for all, and not
// more than it likes even then: the rest is on further pages.
func (c *Collection[T]) List(ctx context.Context) ([]T, error) {
	return c.list(ctx, c.path+c.detail, nil)
}

// Some reads the objects with these UUIDs, by one call if it can. An object that is
// missing is an error that cloud.IsNotFound.
func (c *Collection[T]) Some(ctx context.Context, ids []string) (map[string]cloud.Outcome[*T], error) {
	ids = slices.DeleteFunc(unique(ids), func(id string) bool { return id == "" })
	out := map[string]cloud.Outcome[*T]{}
	if len(ids) > 1 {
		all, err := c.list(ctx, c.path+c.detail, url.Values{"uuid": {strings.Join(ids, ",")}})
		if err != nil && !cloud.IsInvalid(err) {
			return nil, err
		}
		for _, one := range all {
			if id := c.ID(&one); slices.Contains(ids, id) {
				c.Put(one)
				out[id] = cloud.Outcome[*T]{Value: &one}
			}
		}
	}
	for _, id := range ids { // the cloud may not know the filter
		if _, read := out[id]; read {
			continue
		}
		one, err := c.Get(ctx, id)
		if err != nil && !cloud.IsNotFound(err) {
			return nil, err
		}
		out[id] = cloud.Outcome[*T]{Value: one, Err: err}
	}
	return out, nil
}

func (c *Collection[T]) list(ctx context.Context, path string, filter url.Values) ([]T, error) {
	for range maxListings {
		all, err := c.pages(ctx, path, filter)
		if !errors.Is(err, errListChanges) {
			return all, err
		}
	}
	return nil, fmt.Errorf("list all of kind %s: %w", c.kind, errListChanges)
}

func (c *Collection[T]) pages(ctx context.Context, path string, filter url.Values) ([]T, error) {
	all, seen, total := []T{}, map[string]bool{}, -1
	for {
		p, err := c.page(ctx, path, filter, len(all))
		if err != nil {
			return nil, err
		}
		if p.Objects == nil {
			return nil, fmt.Errorf("list all of kind %s: the answer is not a list", c.kind)
		}
		if n := p.Meta.TotalCount; n != nil && total >= 0 && *n != total {
			return nil, errListChanges
		} else if n != nil {
			total = *n
		}
		for _, raw := range *p.Objects {
			var one T
			if err := json.Unmarshal(raw, &one); err != nil {
				return nil, fmt.Errorf("read %s in a list: %w", c.kind, err)
			}
			if seen[c.ID(&one)] {
				return nil, errListChanges
			}
			seen[c.ID(&one)] = true
			all = append(all, one)
		}
		switch {
		case len(all) >= total:
			return all, nil
		case len(*p.Objects) == 0:
			return nil, fmt.Errorf("list all of kind %s: got %d of %d", c.kind, len(all), total)
		}
	}
}

func (c *Collection[T]) page(ctx context.Context, path string, filter url.Values, offset int) (page, error) {
	query := url.Values{"limit": {"0"}}
	maps.Copy(query, filter)
	if offset > 0 {
		query.Set("offset", strconv.Itoa(offset))
	}
	var p page
	err := c.transport.Do(ctx, cloud.Call{Method: http.MethodGet, Kind: c.kind, Path: path, Query: query.Encode(), Out: &p})
	return p, err
}

// wrongObjectError is an answer about something else than what was asked for: an
// error that was sent as a success, or a list.
type wrongObjectError struct{ kind, want, got string }

func (e *wrongObjectError) Error() string {
	return fmt.Sprintf("asked for %s %s and got %q", e.kind, e.want, e.got)
}
