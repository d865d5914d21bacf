package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"fairlead.io/internal/cloudscale"
)

// Cloudscale are the servers of a project at cloudscale.ch.
//
// All questions are answered from one list of all servers, which is seconds old
// at most. Only a server that is not in it is asked for by itself.
type Cloudscale struct {
	servers interface {
		Get(ctx context.Context, uuid string) (*cloudscale.Server, error)
	}
	listing *cloudscale.Listing
}

var _ cloudprovider.InstancesV2 = (*Cloudscale)(nil)

// NewCloudscale makes them, from the listing that the load balancers use, too.
func NewCloudscale(c *cloudscale.Client, listing *cloudscale.Listing) *Cloudscale {
	return &Cloudscale{servers: c.Servers, listing: listing}
}

// errNoProviderID is because a name is too weak a reason to delete a Node, or to
// say that it is shut down.
var errNoProviderID = errors.New("the Node has no providerID")

// InstanceExists says whether the Node's server exists. It is false only if the
// server is in no list and the cloud, asked for it, says that it is not found:
// the Node is deleted then.
func (c *Cloudscale) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	if node.Spec.ProviderID == "" {
		return false, fmt.Errorf("node %s: %w", node.Name, errNoProviderID)
	}
	_, err := c.server(ctx, node)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdown says whether the Node's server is stopped; one that is about
// to stop, or to start, is not.
func (c *Cloudscale) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	if node.Spec.ProviderID == "" {
		return false, fmt.Errorf("node %s: %w", node.Name, errNoProviderID)
	}
	server, err := c.server(ctx, node)
	if err != nil {
		return false, err
	}
	return server.Status == cloudscale.Stopped, nil
}

// InstanceMetadata says what the Node's server is.
func (c *Cloudscale) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	server, err := c.server(ctx, node)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:    cloudscale.ProviderID(server.UUID),
		InstanceType:  server.Flavor.Slug,
		Zone:          server.Zone.Slug,
		Region:        strings.TrimRight(server.Zone.Slug, "0123456789"),
		NodeAddresses: addressesOf(server),
	}, nil
}

// addressesOf are the server's addresses in the order of its interfaces, as
// cloudscale's manual shows them.
func addressesOf(server *cloudscale.Server) []corev1.NodeAddress {
	out := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: server.Name}}
	for _, i := range server.Interfaces {
		of := corev1.NodeInternalIP
		if i.Type == cloudscale.Public {
			of = corev1.NodeExternalIP
		}
		for _, a := range i.Addresses {
			out = append(out, corev1.NodeAddress{Type: of, Address: a.Address.String()})
		}
	}
	return out
}

// server returns the Node's server: the one that its providerID says, or the one
// that has its name.
func (c *Cloudscale) server(ctx context.Context, node *corev1.Node) (*cloudscale.Server, error) {
	if node.Spec.ProviderID == "" {
		return c.byName(ctx, node.Name)
	}
	id, err := cloudscale.ServerID(node.Spec.ProviderID)
	if err != nil {
		return nil, &refusal{reason: Reasons.Say(NodeForeign, node.Name, node.Spec.ProviderID, cloudscale.ProviderID("UUID")), cause: err}
	}
	return c.byID(ctx, node.Name, id)
}

func (c *Cloudscale) byID(ctx context.Context, node, id string) (*cloudscale.Server, error) {
	servers, err := c.listing.Servers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	if i := slices.IndexFunc(servers, func(s cloudscale.Server) bool { return s.UUID == id }); i >= 0 {
		return &servers[i], nil
	}
	server, err := c.servers.Get(ctx, id)
	if cloudscale.IsNotFound(err) {
		return nil, &refusal{reason: Reasons.Say(NodeNotFound, node, "with the UUID "+id), cause: cloudprovider.InstanceNotFound}
	}
	if err != nil {
		return nil, fmt.Errorf("read server of node %s: %w", node, err)
	}
	return server, nil
}

// byName looks once more in a newer list if the name is not in one: the node may
// have come after it.
func (c *Cloudscale) byName(ctx context.Context, name string) (*cloudscale.Server, error) {
	for _, list := range []func(context.Context) ([]cloudscale.Server, error){c.listing.Servers, c.listing.Recent} {
		servers, err := list(ctx)
		if err != nil {
			return nil, fmt.Errorf("list servers: %w", err)
		}
		var found []*cloudscale.Server
		for i := range servers {
			if servers[i].Name == name {
				found = append(found, &servers[i])
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return nil, &refusal{reason: Reasons.With(NodeAmbiguous, len(found), name, cloudscale.ProviderID(found[0].UUID), cloudscale.ProviderID(found[1].UUID)), cause: fmt.Errorf("found more than one server named %q", name)}
		}
	}
	return nil, &refusal{reason: Reasons.Say(NodeNotFound, name, fmt.Sprintf("named %q", name)), cause: cloudprovider.InstanceNotFound}
}
