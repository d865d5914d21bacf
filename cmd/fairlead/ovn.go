package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/kubernetes"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/setup"
)

// errNoIdentity is about clusters whose rows could not be told from those of others.
var errNoIdentity = errors.New("the cluster has no identity in OVN's database: set clusterName in the configuration file, or permit Fairlead to get namespace kube-system")

// addOVN adds what serves classes of backend ovn, if there are any.
func addOVN(ctx context.Context, o *controller.Options, getenv func(string) string, services controller.Backend) error {
	if !slices.Contains(o.Config.Backends(), config.OVN) {
		return nil
	}
	endpoints, err := o.Config.OVN.Endpoints(getenv)
	if err != nil {
		return fmt.Errorf("reach OVN: %w", err)
	}
	cluster := o.Config.ClusterName
	if cluster == "" {
		api, err := kubernetes.NewForConfig(o.REST)
		if err != nil {
			return fmt.Errorf("reach the API server: %w", err)
		}
		if cluster, err = clusterUID(ctx, api.CoreV1().Namespaces().Get, o.Log); err != nil {
			return err
		}
		if cluster == "" {
			return errNoIdentity
		}
	}
	o.Log.Info("using OVN", "northbound", fmt.Sprint(endpoints), "cluster", cluster, "EIps", string(o.Config.OVN.EIps))
	return setup.AddOVN(o, cluster, endpoints, services)
}
