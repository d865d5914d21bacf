// Package sandbox runs real Kubernetes on one machine, without containers
// around it and without downloading binaries: for tests and for trying things.
//
// It has two forms. [StartAPI] starts etcd, the API server and the controller
// manager as one child process of a test, ready in a few seconds, gone with
// the test. The full form boots a cluster of several nodes, each a set of
// Linux namespaces with a containerd, a kubelet and a kube-proxy of its own,
// on a bridged LAN beside a client host.
//
// Kubernetes itself is the multi-call binary of the kube module: see
// [KubeBinary]. The package knows nothing of Fairlead's own kinds, so that
// anything can be tried in it.
package sandbox
