package main

import (
	"fmt"

	"fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
)

// cloudscalePage has the annotations of Services on cloudscale.ch, and what a
// change of a Service costs.
func cloudscalePage(p *page) error {
	p.title("cloudscale.ch", "internal/compat/cloudscale/annotation.go", `Annotations for load balancers of cloudscale.ch on Services of type LoadBalancer, and the cost
of changing them on a Service that is already served. They are the annotations of cloudscale's
own cloud controller manager. A present annotation is used even if it is empty; defaults apply to
absent ones.`)
	p.heading("What a change costs")
	p.printf("Fairlead plans every change first. Every step of a plan has one of these classes. The event\nthat reports the change contains the plan and its worst class.\n\n")
	p.table("class", "meaning")
	for _, i := range []struct {
		impact lb.Impact
		means  string
	}{
		{lb.ImpactNone, "No effect on established or new connections."},
		{lb.ImpactNewConnections, "Established connections continue. New ones may fail for a moment. They fail permanently if that was requested: a port was removed, or a network is no longer allowed."},
		{lb.ImpactSeconds, "A port does not answer for some seconds."},
		{lb.ImpactMinutes, "A port does not answer for a minute or longer."},
		{lb.ImpactRefused, "The change needs a new load balancer with another address. Fairlead does not make it. The existing load balancer stays, and Fairlead makes all other changes."},
	} {
		p.row(i.impact.String(), i.means)
	}
	p.printf("\nThe last column is the cost of the same change in the manual of cloudscale's controller. No\nchange costs more with Fairlead.\n\n")
	p.table("change of the Service or the nodes", "cost", "how", "in the manual")
	for _, c := range cloudscale.SpecChanges {
		p.row(c.What, c.Impact.String(), c.How, string(c.Manual))
	}
	p.printf("\n")
	p.table("change of an annotation, k8s.cloudscale.ch/…", "cost", "how", "in the manual")
	for _, a := range cloudscale.Annotations {
		p.row("`"+a.Key[len("k8s.cloudscale.ch/"):]+"`", a.Impact.String(), a.How, string(a.Manual))
	}
	p.heading("Differences from the manual")
	p.printf("These changes cost less than in the manual:\n\n")
	for _, c := range cloudscale.SpecChanges {
		deviation(p, c.What, c.Impact, c.Manual, c.How)
	}
	for _, a := range cloudscale.Annotations {
		deviation(p, "`"+a.Key+"` is changed", a.Impact, a.Manual, a.How)
	}
	p.printf(`
The durations of the classes were measured on a simulated cloud. The real cloud may take longer for
each step, but the steps are the same.

These points are not in the manual:

- A node that the cloud does not know is skipped and reported; all others are served. If the cloud
  knows none of the nodes, Fairlead keeps the members and creates no load balancer.
- Fairlead reports all invalid annotations of a Service at once. It does not change the load balancer
  until they are fixed, but members still follow the nodes.
- Single addresses in ` + "`loadbalancer-listener-allowed-cidrs`" + ` are treated as networks of one address.
- A Service that was copied with its annotations does not take over the load balancer of the original.
- A floating IP that cannot be assigned does not block other changes.
- Fairlead detects changes made in the control panel within some minutes, reverts them and reports them.
- Objects that Fairlead creates have tags: the name of the cluster, and the UID and name of the Service.
  Fairlead uses them to find and report load balancers whose Service no longer exists. It deletes these
  only on request.
- A Service can always be deleted, even with invalid annotations.
`)
	p.heading("Rules of version 1 and 2")
	p.printf(`cloudscale's controller ignores some fields of a Service. If Fairlead used them, adopted load balancers
would change unexpectedly. So there are two versions of the rules, selected by the annotation
`+"`%s`"+`:

- **1** behaves like cloudscale's controller. It applies to load balancers that existed before
  Fairlead. Adopting them changes only their tags.
- **2** applies to load balancers that Fairlead creates, and to Services that request it:
  - `+"`spec.sessionAffinity: ClientIP`"+` selects the algorithm `+"`source_ip`"+`, unless an annotation selects one;
  - `+"`spec.loadBalancerSourceRanges`"+` limits the clients, unless an annotation does;
  - `+"`spec.loadBalancerIP`"+` requests that floating IP, unless an annotation requests some;
  - floating IPs replace the load balancer's own address of the same family in the Service's
    status;
  - a UDP port without a TCP port on the same node port is checked with `+"`udp-connect`"+` instead of `+"`tcp`"+`,
    which would always fail.

Set the annotation to "2" to switch, and check the cost first. A Service with the annotation "1" follows
version 1, even if its load balancer is new. The cloud has no equivalent of `+"`ipFamilies`"+` and
`+"`appProtocol`"+`: a public load balancer always has an address of each family.
`, cloudscale.AnnotationConfigVersion)
	p.heading("Annotations")
	for _, a := range cloudscale.Annotations {
		p.printf("### %s\n\n%s\n\n- Type: %s\n", a.Key, a.Means, a.Type)
		if a.Default != "" {
			p.printf("- Default: %s\n", a.Default)
		}
		p.printf("- Cost of a change: %s\n\n", a.Impact)
	}
	return nil
}

// deviation writes a line about a change that costs less than the manual says.
func deviation(p *page, what string, impact lb.Impact, manual cloudscale.Manual, how string) {
	if manual != cloudscale.ManualSilent && impact < manual.Impact() {
		p.printf("- %s: %s instead of %s. %s\n", what, impact, fmt.Sprintf("%q", string(manual)), how)
	}
}
