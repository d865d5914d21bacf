package main

import (
	"k8s.io/apimachinery/pkg/types"

	compat "fairlead.io/internal/compat/cloudsigma"
)

// cloudsigmaPage has what Services on CloudSigma can ask for, and how their addresses
// are tagged there.
func cloudsigmaPage(p *page) error {
	p.title("CloudSigma", "internal/compat/cloudsigma", `The annotation of CloudSigma's controller manager on Services of type LoadBalancer, and the tags of
addresses in the account. `+"`spec.loadBalancerIP`"+` and [Fairlead's own annotations](annotations.md) count as in
every class.`)
	if err := constants(p, "internal/compat/cloudsigma/annotation.go"); err != nil {
		return err
	}
	p.heading("Tags of addresses")
	p.printf("An address that a Service has is claimed by three tags. Only the first says whose it is. Fairlead\nnever gives out, attaches or untags an address with the tag of another cluster.\n\n")
	p.table("tag", "meaning")
	p.row("`"+compat.ClusterTag("NAME")+"`", "a Service of the cluster has it; the name is `clusterName` of the configuration, or `--cluster-name`")
	p.row("`"+compat.ServiceTag(types.NamespacedName{Namespace: "NAMESPACE", Name: "NAME"})+"`", "that Service has it; Services of several clusters can have the same tag")
	p.row("`"+compat.ManagedTag+"`", "a Service of any cluster has it")
	p.heading("Impact of changes")
	p.table("change", "impact")
	p.row("an address is claimed and attached", "none")
	p.row("an address moves to another node", "seconds: an address can be on one server at a time")
	p.row("an address moves between nodes whose own NIC is in mode manual", "as with backend announce: the agents move it without a call")
	return nil
}
