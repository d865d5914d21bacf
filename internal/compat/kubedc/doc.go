// Package kubedc reads Services as kube-dc does: its annotations become a Wish. It
// also reads where the Services of a namespace are served: the router and the switches
// of its project. It is pure, and knows neither the API server nor OVN's database.
package kubedc
