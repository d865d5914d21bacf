package main

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	backend "fairlead.io/internal/backend/cloudscale"
	"fairlead.io/internal/cloudscale"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/nodes"
)

var cloudscaleCloud = cloud{
	nodes: config.CloudscaleNodes, backend: config.Cloudscale,
	configured: cloudscale.Configured, add: addCloudscale,
}

// addCloudscale adds load balancers and node controllers of cloudscale.ch.
func addCloudscale(o *controller.Options, use inCloud) error {
	options, err := cloudscale.FromEnv(use.getenv)
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

	servers := client.ServerCache()
	if use.looksAfterNodes {
		n := use.nodes
		n.REST, n.Log, n.Cloud = o.REST, o.Log, nodes.NewCloudscale(client, servers)
		o.Parts = append(o.Parts, nodes.New(n))
		o.Metrics = append(o.Metrics, nodes.Metrics)
	}
	if use.servesClasses {
		services := use.services
		services.Backend = backend.New(backend.Options{Client: client, Servers: servers, Cluster: o.Config.ClusterName})
		o.Cloud = &services
	}
	return nil
}
