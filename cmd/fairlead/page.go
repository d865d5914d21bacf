package main

import (
	"cmp"

	"k8s.io/client-go/rest"

	"fairlead.io/internal/controller"
	"fairlead.io/internal/page"
	"fairlead.io/internal/serve"
	"fairlead.io/internal/snapshot"
)

// addPage has every replica serve the live page. It has clients of its own, so that it
// takes nothing from what the controller has to write, and follows the cluster only while
// somebody looks.
func addPage(o *controller.Options, address, metallbNamespace string) error {
	api := rest.CopyConfig(o.REST)
	api.RateLimiter, api.QPS, api.Burst, api.DisableCompression = nil, 50, 100, true
	source, err := snapshot.NewWatcher(snapshot.Options{REST: api, Config: o.Config, MetalLBNamespace: metallbNamespace, PodNamespace: podNamespaceOr("")})
	if err != nil {
		return err
	}
	p := page.New(cmp.Or(o.Config.ClusterName, api.Host), source)
	s, err := serve.Page(address, o.REST, p.Shell(), p.Data(), o.Log)
	if err != nil {
		return err
	}
	o.Parts = append(o.Parts, s)
	return nil
}
