// Package layer3 announces prefixes to routers by BGP, and watches the paths to them by BFD.
// It translates peers of the model into sessions of packages bgp and bfd, and puts the two
// together: BFD that fails ends the BGP session, and BFD that works has it begin again.
//
// It decides nothing about what is announced to whom, and knows nothing of Kubernetes.
package layer3
