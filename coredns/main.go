// Command coredns is the DNS server of a sandbox cluster, for Kubernetes' own tests: CoreDNS with
// only those plugins that answer for Services and pods. It is a Go module of its own because of
// what CoreDNS requires.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() { coremain.Run() }
