package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	backend "fairlead.io/internal/backend/cloudsigma"
	"fairlead.io/internal/carrypods"
	"fairlead.io/internal/cloudsigma"
	compat "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/nodes"
	"fairlead.io/internal/reach"
)

var cloudsigmaCloud = cloud{
	nodes: config.CloudSigmaNodes, backend: config.CloudSigma,
	configured: cloudsigmaIntended, add: addCloudSigma,
}

// addCloudSigma adds addresses and node controllers of CloudSigma.
func addCloudSigma(_ context.Context, o *controller.Options, use inCloud) error {
	options, err := cloudsigma.FromEnv(use.getenv)
	if err != nil {
		return fmt.Errorf("reach CloudSigma: %w", err)
	}
	registry := prometheus.NewRegistry()
	options.Metrics = registry
	client, err := cloudsigma.New(options)
	if err != nil {
		return fmt.Errorf("reach CloudSigma: %w", err)
	}
	o.Metrics = append(o.Metrics, registry)
	o.Log.Info("using CloudSigma", "address", client.URL(), "credentials", options.Way(), "timeout", options.Timeout.String())
	if host, better := options.BetterHost(); better {
		o.Log.Warn("CloudSigma serves users of OAuth on another host: on this one, the token may act for the service account, which has no servers", "set", cloudsigma.EnvEndpoint, "to", "https://"+host+"/api/2.0")
	}
	if use.looksAfterNodes {
		n := use.nodes
		n.REST, n.Log, n.Cloud = o.REST, o.Log, nodes.NewCloudSigma(client, options.Region)
		o.Parts = append(o.Parts, nodes.New(n))
		o.Metrics = append(o.Metrics, nodes.Metrics)
		if slices.Contains(o.Config.Backends(), config.Announce) {
			o.Parts = append(o.Parts, &reach.Check{REST: o.REST, Client: client, Config: o.Config, Log: o.Log})
		}
	}
	if use.servesClasses {
		services := use.services
		class := o.Config.Class("")
		b := backend.Options{Client: client, Cluster: o.Config.ClusterName, Log: o.Log,
			Unclassed: class != nil && class.Backend == config.CloudSigma}
		pods, err := carrypods.New(o.REST, o.Log)
		if err != nil {
			return err
		}
		b.OldPod = pods.NodeOf
		if o.Config.CloudSigma.Pods {
			b.Pods, b.PodImage, b.PodInterface = pods, use.podImage, o.Config.CloudSigma.Interface
			o.Log.Info("pods carry addresses: agents are not used", "image", use.podImage)
		}
		services.Backend = backend.New(b)
		services.Plans, services.Workers = true, cloudWorkers
		o.Backends[config.CloudSigma] = services
		o.Dialects = append(o.Dialects, compat.Dialect{})
	}
	return nil
}
