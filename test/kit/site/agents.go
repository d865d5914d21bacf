package site

import (
	"context"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
)

// Announced says which nodes have which addresses, by what their agents say.
func Announced(ctx context.Context, api kube.Client) (nodes map[string][]string, err error) {
	var agents v1alpha1.AgentList
	if err := api.List(ctx, &agents); err != nil {
		return nil, err
	}
	nodes = map[string][]string{}
	for _, a := range agents.Items {
		for _, has := range a.Status.Addresses {
			nodes[has.Address] = append(nodes[has.Address], a.Name)
		}
	}
	return nodes, nil
}
