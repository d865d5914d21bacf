package cloudsigma

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"fairlead.io/internal/cloud"
)

// Client of the API, for one account in one region. The fields are what there is
// in it.
type Client struct {
	Servers       *Servers
	IPs           *Collection[IP]
	Tags          *Tags
	Subscriptions *Collection[Subscription]

	transport *cloud.Client
}

// New makes a client.
func New(o Options) (*Client, error) {
	t, err := o.transport()
	if err != nil {
		return nil, err
	}
	return &Client{
		Servers:       newServers(collection(t, "server", "servers/", "detail/", func(s *Server) string { return s.UUID })),
		IPs:           collection(t, "ip", "ips/", "detail/", func(ip *IP) string { return ip.UUID }),
		Tags:          newTags(t),
		Subscriptions: collection(t, "subscription", "subscriptions/", "", func(s *Subscription) string { return string(s.ID) }),
		transport:     t,
	}, nil
}

// URL is where the API is.
func (c *Client) URL() string { return c.transport.URL() }

// Collection reads objects of one kind. The last list is kept, with what was read
// or changed since: Within and Since share it between callers.
type Collection[T any] struct {
	*cloud.ListCache[T]
	transport *cloud.Client
	kind      string // in metrics
	path      string // with a slash at its end, as all paths have
	detail    string // added to it for a list of whole objects
}

func collection[T any](t *cloud.Client, kind, path, detail string, id func(*T) string) *Collection[T] {
	c := &Collection[T]{transport: t, kind: kind, path: path, detail: detail}
	c.ListCache = cloud.NewListCache(c.List, id)
	return c
}

// Get reads the object with this UUID; a missing one is an error that
// cloud.IsNotFound.
func (c *Collection[T]) Get(ctx context.Context, id string) (*T, error) {
	path, err := c.one(id)
	if err != nil {
		return nil, err
	}
	var one T
	if err := c.transport.Do(ctx, cloud.Call{Method: http.MethodGet, Kind: c.kind, Path: path, Out: &one}); err != nil {
		if cloud.IsNotFound(err) {
			c.Drop(id)
		}
		return nil, err
	}
	if got := c.ID(&one); got != id {
		return nil, &wrongObjectError{c.kind, id, got}
	}
	c.Put(one)
	return &one, nil
}

// Now reads the whole list. Callers who ask while others read wait for a list that
// was begun after they asked.
func (c *Collection[T]) Now(ctx context.Context) ([]T, error) {
	c.Forget()
	return c.Since(ctx, time.Now(), time.Time{})
}

// one is the path of one object. Without an id it would be that of all.
func (c *Collection[T]) one(id string) (string, error) {
	if id == "" {
		return "", errNoID(c.kind)
	}
	return c.path + url.PathEscape(id) + "/", nil
}
