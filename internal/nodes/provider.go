package nodes

import (
	cloudprovider "k8s.io/cloud-provider"
)

// provider is a cloud as the two controllers want it. There is nothing behind
// what they do not ask for.
type provider struct {
	name      string
	instances cloudprovider.InstancesV2
}

var _ cloudprovider.Interface = provider{}

func (p provider) ProviderName() string                                            { return p.name }
func (p provider) InstancesV2() (cloudprovider.InstancesV2, bool)                  { return p.instances, true }
func (provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (provider) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (provider) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return nil, false }
func (provider) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (provider) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (provider) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (provider) HasClusterID() bool                                                { return false }
