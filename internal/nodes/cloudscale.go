package nodes

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudscale"
)

// Cloudscale is a project at cloudscale.ch.
type Cloudscale struct {
	servers interface {
		Get(ctx context.Context, uuid string) (*cloudscale.Server, error)
	}
	cache *cloud.ListCache[cloudscale.Server]
}

var _ Cloud = (*Cloudscale)(nil)

// NewCloudscale makes it from a client, and the list of servers that the load
// balancers use, too.
func NewCloudscale(c *cloudscale.Client, servers *cloud.ListCache[cloudscale.Server]) *Cloudscale {
	return &Cloudscale{c.Servers, servers}
}

// Name is how the configuration calls it.
func (*Cloudscale) Name() string { return "cloudscale" }

// Title is how sentences call it.
func (*Cloudscale) Title() string { return "cloudscale.ch" }

// ProviderID names a server.
func (*Cloudscale) ProviderID(id string) string { return cloudscale.ProviderID(id) }

// ServerID reads a providerID.
func (*Cloudscale) ServerID(providerID string) (string, error) {
	return cloudscale.ServerID(providerID)
}

// Taints are none.
func (*Cloudscale) Taints() []string { return nil }

// Find returns servers of the shared list.
func (c *Cloudscale) Find(ctx context.Context, age time.Duration, match func(id, name string) bool) ([]Server, error) {
	all, err := c.cache.Within(ctx, age)
	if err != nil {
		return nil, err
	}
	var found []Server
	for i := range all {
		if match(all[i].UUID, all[i].Name) {
			found = append(found, ofCloudscale(&all[i]))
		}
	}
	return found, nil
}

// Get asks for one server by itself.
func (c *Cloudscale) Get(ctx context.Context, id string) (*Server, error) {
	s, err := c.servers.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	server := ofCloudscale(s)
	return &server, nil
}

// ofCloudscale lists addresses in the order of the interfaces, as cloudscale's
// manual shows them.
func ofCloudscale(s *cloudscale.Server) Server {
	out := Server{
		ID: s.UUID, Name: s.Name, Stopped: s.Status == cloudscale.Stopped,
		Type: s.Flavor.Slug, Zone: s.Zone.Slug, Region: strings.TrimRight(s.Zone.Slug, "0123456789"),
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: s.Name}},
	}
	for _, i := range s.Interfaces {
		of := corev1.NodeInternalIP
		if i.Type == cloudscale.Public {
			of = corev1.NodeExternalIP
		}
		for _, a := range i.Addresses {
			out.Addresses = append(out.Addresses, corev1.NodeAddress{Type: of, Address: a.Address.String()})
		}
	}
	return out
}
