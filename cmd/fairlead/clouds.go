package main

import (
	"context"
	"slices"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/nodes"
)

// cloud is one that Fairlead can be the controller manager of.
type cloud struct {
	// nodes and backend are its names in the configuration.
	nodes   config.Cloud
	backend config.Backend
	// configured says whether the environment is enough to be its controller
	// manager without a configuration file.
	configured func(getenv func(string) string) bool
	// add adds to the controller what the configuration has of the cloud.
	add func(ctx context.Context, o *controller.Options, use inCloud) error
}

// inCloud is what the configuration and flags say about a cloud.
type inCloud struct {
	getenv func(string) string
	// looksAfterNodes says that the cloud's servers are the nodes, and servesClasses
	// that it has the load balancers of some classes.
	looksAfterNodes, servesClasses bool

	nodes    nodes.Options
	services controller.Backend
	// adoptFrom are the clusters whose load balancers Services of this one may name.
	adoptFrom []string
	// podImage is that of the pods that carry addresses where nodes have no agents.
	podImage string
}

// clouds are all of them.
var clouds = []cloud{cloudscaleCloud, cloudsigmaCloud}

// configuredClouds are those that the environment configures.
func configuredClouds(getenv func(string) string) []config.Cloud {
	var out []config.Cloud
	for _, c := range clouds {
		if c.configured(getenv) {
			out = append(out, c.nodes)
		}
	}
	return out
}

// addClouds adds to the controller what the configuration has of any cloud. use is
// what the environment and flags say about all of them.
func addClouds(ctx context.Context, o *controller.Options, use inCloud) error {
	for _, c := range clouds {
		use.looksAfterNodes = o.Config.Nodes.Cloud == c.nodes
		use.servesClasses = slices.Contains(o.Config.Backends(), c.backend)
		if !use.looksAfterNodes && !use.servesClasses {
			continue
		}
		if err := c.add(ctx, o, use); err != nil {
			return err
		}
	}
	return nil
}
