// Package nodes manages Node objects in a cluster whose nodes are servers of a cloud:
// it sets their type, zone and addresses, marks those that were shut down, and
// removes those whose server is gone.
//
// The two controllers that do so are those of k8s.io/cloud-provider, as every
// cloud controller manager has them, and work as documented there. This package
// answers their questions from the servers of a Cloud, and reports to users what
// they only log. A cloud is a file that implements Cloud; nothing else here knows
// a particular one. The package knows nothing of Services.
package nodes
