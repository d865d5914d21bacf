// Package cloudscale reads Services as cloudscale.ch's own cloud controller manager
// does: its annotations, and how a Service's ports become listeners and pools.
// It knows neither the cloud's API nor the cluster's nodes.
package cloudscale
