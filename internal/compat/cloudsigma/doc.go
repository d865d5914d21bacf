// Package cloudsigma reads Services as CloudSigma's own cloud controller manager
// does: its annotation, its two pools, and the names of its tags. It knows neither
// the cloud's API nor the cluster's nodes.
package cloudsigma
