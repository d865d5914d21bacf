package cloudscale

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"

	"fairlead.io/internal/cloud"
)

// Client of the API, for one project. The fields are what there is in it.
//
// The cloud does one change of a load balancer at a time. Whoever changes one
// does so between Lock and unlock.
type Client struct {
	LoadBalancers  Collection[LoadBalancer, NewLoadBalancer, LoadBalancerPatch]
	Pools          Collection[Pool, NewPool, PoolPatch]
	Listeners      Collection[Listener, NewListener, ListenerPatch]
	HealthMonitors Collection[HealthMonitor, NewHealthMonitor, HealthMonitorPatch]
	FloatingIPs    FloatingIPs
	Servers        Reader[Server]
	Subnets        Reader[Subnet]

	transport *cloud.Client
	locks     cloud.Locks
}

// New makes a client.
func New(o Options) (*Client, error) {
	t, err := o.transport()
	if err != nil {
		return nil, err
	}
	return &Client{
		LoadBalancers:  collection[LoadBalancer, NewLoadBalancer, LoadBalancerPatch](t, "load-balancer", "v1/load-balancers"),
		Pools:          collection[Pool, NewPool, PoolPatch](t, "pool", "v1/load-balancers/pools"),
		Listeners:      collection[Listener, NewListener, ListenerPatch](t, "listener", "v1/load-balancers/listeners"),
		HealthMonitors: collection[HealthMonitor, NewHealthMonitor, HealthMonitorPatch](t, "health-monitor", "v1/load-balancers/health-monitors"),
		FloatingIPs:    FloatingIPs{Reader[FloatingIP]{t, "floating-ip", "v1/floating-ips"}},
		Servers:        Reader[Server]{t, "server", "v1/servers"},
		Subnets:        Reader[Subnet]{t, "subnet", "v1/subnets"},
		transport:      t,
	}, nil
}

// URL is where the API is.
func (c *Client) URL() string { return c.transport.URL() }

// Lock waits until nobody else of this process changes the load balancer.
func (c *Client) Lock(ctx context.Context, loadBalancer string) (unlock func(), err error) {
	return c.locks.Lock(ctx, loadBalancer)
}

// ServerCache is a cache of the list of all servers.
func (c *Client) ServerCache() *cloud.ListCache[Server] {
	list := func(ctx context.Context) ([]Server, error) { return c.Servers.List(ctx, nil) }
	return cloud.NewListCache(list, func(s *Server) string { return s.UUID })
}

// Members of a pool.
func (c *Client) Members(pool string) Collection[Member, NewMember, MemberPatch] {
	return collection[Member, NewMember, MemberPatch](c.transport, "member", "v1/load-balancers/pools/"+url.PathEscape(pool)+"/members")
}

// Reader reads objects of one kind.
type Reader[T any] struct {
	transport *cloud.Client
	kind      string // in metrics
	path      string
}

// List returns all objects, or those with all of the tags.
func (r Reader[T]) List(ctx context.Context, tags Tags) ([]T, error) {
	query := url.Values{}
	for k, v := range tags {
		query.Set("tag:"+k, v)
	}
	var all []T
	err := r.transport.Do(ctx, cloud.Call{Method: http.MethodGet, Kind: r.kind, Path: r.path, Query: query.Encode(), Out: &all})
	return all, err
}

// Get returns the object with this UUID, or an error that cloud.IsNotFound.
func (r Reader[T]) Get(ctx context.Context, id string) (*T, error) {
	path, err := r.one(id)
	if err != nil {
		return nil, err
	}
	var one T
	if err := r.transport.Do(ctx, cloud.Call{Method: http.MethodGet, Kind: r.kind, Path: path, Out: &one}); err != nil {
		return nil, err
	}
	return &one, nil
}

// one is the path of one object. Without an id it would be that of all.
func (r Reader[T]) one(id string) (string, error) {
	if id == "" {
		return "", errNoID(r.kind)
	}
	return r.path + "/" + url.PathEscape(id), nil
}

// Collection reads and writes objects of one kind: T is what there is, N what is
// asked for, P what is changed.
type Collection[T, N, P any] struct{ Reader[T] }

func collection[T, N, P any](t *cloud.Client, kind, path string) Collection[T, N, P] {
	return Collection[T, N, P]{Reader[T]{t, kind, path}}
}

// Create makes an object. If the error's OutcomeUnknown, it may be there: look
// for it before asking again.
func (c Collection[T, N, P]) Create(ctx context.Context, n N) (*T, error) {
	var one T
	if err := c.transport.Do(ctx, cloud.Call{Method: http.MethodPost, Kind: c.kind, Path: c.path, In: n, Out: &one}); err != nil {
		return nil, err
	}
	return &one, nil
}

// Patch changes an object.
func (c Collection[T, N, P]) Patch(ctx context.Context, id string, p P) error {
	path, err := c.one(id)
	if err != nil {
		return err
	}
	return c.transport.Do(ctx, cloud.Call{Method: http.MethodPatch, Kind: c.kind, Path: path, In: p})
}

// Delete removes an object, and everything in it. If it is not there, the error
// cloud.IsNotFound.
func (c Collection[T, N, P]) Delete(ctx context.Context, id string) error {
	path, err := c.one(id)
	if err != nil {
		return err
	}
	return c.transport.Do(ctx, cloud.Call{Method: http.MethodDelete, Kind: c.kind, Path: path})
}

// FloatingIPs are read, and moved; Get wants the address without its prefix
// length.
type FloatingIPs struct{ Reader[FloatingIP] }

// Assign moves a floating IP to a load balancer. It cannot be moved to nothing.
func (f FloatingIPs) Assign(ctx context.Context, network netip.Prefix, loadBalancer string) error {
	path, err := f.one(network.Addr().String())
	if err != nil {
		return err
	}
	return f.transport.Do(ctx, cloud.Call{Method: http.MethodPatch, Kind: f.kind, Path: path, In: map[string]string{"load_balancer": loadBalancer}})
}

// MarshalJSON writes [] for none.
func (c CIDRs) MarshalJSON() ([]byte, error) {
	out := make([]string, 0, len(c))
	for _, p := range c {
		out = append(out, p.String())
	}
	return json.Marshal(out)
}
