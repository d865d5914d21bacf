package tool

import (
	"errors"
	"fmt"

	"fairlead.io/internal/backend"
	balancers "fairlead.io/internal/backend/cloudscale"
	"fairlead.io/internal/cloudscale"
	"fairlead.io/internal/config"
	"fairlead.io/internal/snapshot"
)

// planningClouds are those that can say what they would do. What they need is in the
// environment, as for the controller. They only read.
func planningClouds(getenv func(string) string) map[config.Backend]snapshot.Cloud {
	return map[config.Backend]snapshot.Cloud{config.Cloudscale: func(cluster, uid string) (backend.Backend, error) {
		if !cloudscale.Configured(getenv) {
			return nil, errors.New("$" + cloudscale.EnvToken + " is not set, so the cloud was not asked")
		}
		o, err := cloudscale.FromEnv(getenv)
		if err != nil {
			return nil, fmt.Errorf("reach cloudscale.ch: %w", err)
		}
		c, err := cloudscale.New(o)
		if err != nil {
			return nil, fmt.Errorf("reach cloudscale.ch: %w", err)
		}
		return balancers.New(balancers.Options{Client: c, Servers: c.ServerCache(), Cluster: cluster, ClusterUID: uid, Unclassed: true}), nil
	}}
}
