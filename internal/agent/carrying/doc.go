// Package carrying keeps established connections alive when an address moves: it runs what
// package moves decides, with the kernel's connection tracking, our tables, the LAN and letters
// between agents. It has a goroutine of its own, so that the agent's loop never waits for it.
//
// It does not know which node should have an address, nor Kubernetes.
package carrying
