package cloudsigma

import "fairlead.io/internal/cloud"

// scheme is what providerIDs of Nodes begin with.
const scheme = "cloudsigma"

// ProviderID names a server in the spec of its Node.
func ProviderID(server string) string { return cloud.ProviderID(scheme, server) }

// ServerID returns the UUID in a providerID, in the form in which the cloud
// writes it.
func ServerID(providerID string) (string, error) { return cloud.ServerID(scheme, providerID) }
