package nodes

import (
	cloudprovider "k8s.io/cloud-provider"
)

// cloud is what the two controllers want to know of a cloud. There is nothing
// behind what they do not ask for.
type cloud struct {
	name      string
	instances cloudprovider.InstancesV2
}

var _ cloudprovider.Interface = cloud{}

func (c cloud) ProviderName() string                                            { return c.name }
func (c cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                  { return c.instances, true }
func (cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return nil, false }
func (cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (cloud) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (cloud) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (cloud) HasClusterID() bool                                                { return false }
