package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	backend "fairlead.io/internal/backend/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/cloudscale"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/nodes"
)

// cloudWorkers is how many Services are worked on at the same time. They do
// little but wait for answers of the cloud, which does one change of a load
// balancer at a time, but those of different ones together.
const cloudWorkers = 100

// addCloudscale adds to the controller what the configuration has of
// cloudscale.ch. n and cloud are what flags say about them.
func addCloudscale(o *controller.Options, n nodes.Options, cloud controller.Backend) error {
	looksAfterNodes := o.Config.Nodes.Cloud == config.CloudscaleNodes
	if !looksAfterNodes && !slices.Contains(o.Config.Backends(), config.Cloudscale) {
		return nil
	}
	options, err := cloudscale.FromEnv(os.Getenv)
	if err != nil {
		return fmt.Errorf("reach cloudscale.ch: %w", err)
	}
	registry := prometheus.NewRegistry()
	options.Metrics = registry
	client, err := cloudscale.New(options)
	if err != nil {
		return fmt.Errorf("reach cloudscale.ch: %w", err)
	}
	o.Metrics = append(o.Metrics, registry)
	o.Log.Info("using cloudscale.ch", "address", client.URL(), "access token", options.Token.String(), "timeout", options.Timeout.String())

	servers := cloudscale.NewListing(func(ctx context.Context) ([]cloudscale.Server, error) { return client.Servers.List(ctx, nil) })
	if looksAfterNodes {
		n.REST, n.Log, n.Cloud, n.Instances = o.REST, o.Log, string(config.CloudscaleNodes), nodes.NewCloudscale(client, servers)
		o.Parts = append(o.Parts, nodes.New(n))
		o.Metrics = append(o.Metrics, nodes.Metrics)
	}
	if slices.Contains(o.Config.Backends(), config.Cloudscale) {
		class := o.Config.Class("")
		cloud.Backend = backend.New(backend.Options{Client: client, Servers: servers, Cluster: o.Config.ClusterName,
			Unclassed: class != nil && class.Backend == config.Cloudscale})
		cloud.Plans, cloud.Workers = true, cloudWorkers
		o.Backends[config.Cloudscale] = cloud
		o.Dialects = append(o.Dialects, compat.Format{})
	}
	return nil
}
