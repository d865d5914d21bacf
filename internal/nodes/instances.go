package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"fairlead.io/internal/cloud"
)

// instances answers the controllers' questions from the servers of a cloud.
//
// All are answered from one list of all servers, which is seconds old at most.
// Only a server that is not in it is asked for by itself.
type instances struct{ Cloud }

var _ cloudprovider.InstancesV2 = instances{}

// errNoProviderID is because a name is too weak a reason to delete a Node, or to
// say that it is shut down.
var errNoProviderID = errors.New("the Node has no providerID")

// InstanceExists says whether the Node's server exists. It is false only if the
// server is in no list and the cloud, asked for it, says that it is not found:
// the Node is deleted then.
func (i instances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	if node.Spec.ProviderID == "" {
		return false, fmt.Errorf("node %s: %w", node.Name, errNoProviderID)
	}
	_, err := i.server(ctx, node)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdown says whether the Node's server is stopped.
func (i instances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	if node.Spec.ProviderID == "" {
		return false, fmt.Errorf("node %s: %w", node.Name, errNoProviderID)
	}
	server, err := i.server(ctx, node)
	if err != nil {
		return false, err
	}
	return server.Stopped, nil
}

// InstanceMetadata says what the Node's server is.
func (i instances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	server, err := i.server(ctx, node)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:    i.ProviderID(server.ID),
		InstanceType:  server.Type,
		Zone:          server.Zone,
		Region:        server.Region,
		NodeAddresses: shown(node, server),
	}, nil
}

// server returns the Node's server: the one that its providerID says, or the one
// that has its name.
func (i instances) server(ctx context.Context, node *corev1.Node) (*Server, error) {
	if node.Spec.ProviderID == "" {
		return i.byName(ctx, node.Name)
	}
	id, err := i.ServerID(node.Spec.ProviderID)
	if err != nil {
		return nil, &refusal{reason: Reasons.Say(NodeForeign, node.Name, node.Spec.ProviderID, i.ProviderID("UUID"), i.Title()), cause: err}
	}
	return i.byID(ctx, node.Name, id)
}

func (i instances) byID(ctx context.Context, node, id string) (*Server, error) {
	found, err := i.Find(ctx, cloud.LookAge, func(is, _ string) bool { return is == id })
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	if len(found) > 0 {
		return &found[0], nil
	}
	server, err := i.Get(ctx, id)
	if cloud.IsNotFound(err) {
		return nil, &refusal{reason: Reasons.Say(NodeNotFound, node, i.Title(), "with the UUID "+id), cause: cloudprovider.InstanceNotFound}
	}
	if err != nil {
		return nil, fmt.Errorf("read server of node %s: %w", node, err)
	}
	return server, nil
}

// byName looks once more in a newer list if the name is not in one: the node may
// have come after it.
func (i instances) byName(ctx context.Context, name string) (*Server, error) {
	for _, age := range []time.Duration{cloud.LookAge, cloud.MissAge} {
		found, err := i.Find(ctx, age, func(_, is string) bool { return is == name })
		if err != nil {
			return nil, fmt.Errorf("list servers: %w", err)
		}
		switch len(found) {
		case 0:
		case 1:
			return &found[0], nil
		default:
			return nil, &refusal{reason: Reasons.With(NodeAmbiguous, len(found), name, i.ProviderID(found[0].ID), i.ProviderID(found[1].ID)), cause: fmt.Errorf("found more than one server named %q", name)}
		}
	}
	return nil, &refusal{reason: Reasons.Say(NodeNotFound, name, i.Title(), fmt.Sprintf("named %q", name)), cause: cloudprovider.InstanceNotFound}
}
