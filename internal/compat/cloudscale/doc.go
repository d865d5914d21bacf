// Package cloudscale reads Services in the words of cloudscale.ch's own cloud
// controller manager: its annotations, and what it makes of a Service's ports.
// It knows neither the cloud's API nor the cluster's nodes.
package cloudscale
