package main

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"

	backend "fairlead.io/internal/backend/cloudscale"
	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/nodes"
)

var cloudscaleCloud = cloud{
	nodes: config.CloudscaleNodes, backend: config.Cloudscale,
	configured: cloudscale.Configured, add: addCloudscale,
}

// cloudWorkers is how many Services are worked on at the same time. They do
// little but wait for answers of the cloud, which does one change of a load
// balancer at a time, but those of different ones together.
const cloudWorkers = 100

// addCloudscale adds load balancers and node controllers of cloudscale.ch.
func addCloudscale(ctx context.Context, o *controller.Options, use inCloud) error {
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
		api, err := kubernetes.NewForConfig(o.REST)
		if err != nil {
			return fmt.Errorf("reach the API server: %w", err)
		}
		uid, err := clusterUID(ctx, api.CoreV1().Namespaces().Get, o.Log)
		if err != nil {
			return err
		}
		services := use.services
		class := o.Config.Class("")
		services.Backend = backend.New(backend.Options{Client: client, Servers: servers, Cluster: o.Config.ClusterName, ClusterUID: uid, AdoptFrom: use.adoptFrom,
			Unclassed: class != nil && class.Backend == config.Cloudscale})
		services.Plans, services.Workers = true, cloudWorkers
		o.Backends[config.Cloudscale] = services
		o.Dialects = append(o.Dialects, compat.Dialect{})
	}
	return nil
}
