package main

import (
	"fmt"

	"fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
)

// cloudscalePage has the annotations of Services on cloudscale.ch, and what a
// change of a Service costs.
func cloudscalePage(p *page) error {
	p.title("cloudscale.ch", "internal/compat/cloudscale/annotation.go", `What a Service of type LoadBalancer may ask of a load balancer of cloudscale.ch, and what
it costs to change that on a Service that is served. The annotations are those of
cloudscale's own cloud controller manager. One that is present is read as it is, also if it
is empty; defaults are for those that are absent.`)
	p.heading("What a change costs")
	p.printf("Every change is planned before it is made, and every step of a plan has one of these\nclasses. The plan, with its worst class, is in the event that tells of the change.\n\n")
	p.table("class", "meaning")
	for _, i := range []struct {
		impact lb.Impact
		means  string
	}{
		{lb.ImpactNone, "Neither established nor new connections notice."},
		{lb.ImpactNewConnections, "Established connections stay. New ones may fail for a moment, or for good where that is what was asked for: a port was removed, a network is no longer allowed."},
		{lb.ImpactSeconds, "A port does not answer for some seconds."},
		{lb.ImpactMinutes, "A port does not answer for a minute or longer."},
		{lb.ImpactRefused, "Only a new load balancer could have it, with another address. It is not done; the load balancer that runs is left as it is, and everything else is done."},
	} {
		p.row(i.impact.String(), i.means)
	}
	p.printf("\nThe last column is what the manual of cloudscale's controller says of the same change.\nNothing costs more here.\n\n")
	p.table("change of the Service or the nodes", "cost", "how", "in the manual")
	for _, c := range cloudscale.SpecChanges {
		p.row(c.What, c.Impact.String(), c.How, string(c.Manual))
	}
	p.printf("\n")
	p.table("change of an annotation, k8s.cloudscale.ch/…", "cost", "how", "in the manual")
	for _, a := range cloudscale.Annotations {
		p.row("`"+a.Key[len("k8s.cloudscale.ch/"):]+"`", a.Impact.String(), a.How, string(a.Manual))
	}
	p.heading("Where it differs from the manual")
	p.printf("These cost less than the manual says:\n\n")
	for _, c := range cloudscale.SpecChanges {
		deviation(p, c.What, c.Impact, c.Manual, c.How)
	}
	for _, a := range cloudscale.Annotations {
		deviation(p, "`"+a.Key+"` is changed", a.Impact, a.Manual, a.How)
	}
	p.printf(`
What a class means in seconds was seen on a simulated cloud; the real one may take longer for
each step, but the steps are the same.

And these are not in the manual:

- A node that the cloud does not know is left out and told of; all others are served. If it
  knows none of them, members stay as they are, and no load balancer is made.
- A Service that says something that cannot be understood is told all of it at once. Its load
  balancer is not changed until it is corrected, but members follow the nodes.
- Addresses in ` + "`loadbalancer-listener-allowed-cidrs`" + ` are networks of one address.
- A Service that was copied with its annotations does not take the other's load balancer.
- A floating IP that cannot be assigned keeps nothing else from being done.
- Changes made in the control panel are found within some minutes, changed back, and told.
- What Fairlead makes has tags: the cluster's name, the Service's UID and its name. A load
  balancer whose Service no longer exists is found by them and told of, and deleted on request only.
- The Service can always be deleted, whatever it says.
`)
	p.heading("Rules of version 1 and 2")
	p.printf(`cloudscale's controller does not hear some of what a Service says. If Fairlead did, Services
that it takes over would change under their users' feet. So there are two sets of rules,
and the annotation `+"`%s`"+`
says which of them counts:

- **1** is how cloudscale's controller reads a Service. It counts for load balancers that were
  there before Fairlead. Taking them over changes nothing but their tags.
- **2** counts for load balancers that Fairlead makes, and for Services that ask for it:
  - `+"`spec.sessionAffinity: ClientIP`"+` spreads connections by `+"`source_ip`"+`, unless an annotation says how;
  - `+"`spec.loadBalancerSourceRanges`"+` limits who may connect, unless an annotation does;
  - `+"`spec.loadBalancerIP`"+` asks for that floating IP, unless an annotation asks for some;
  - floating IPs are published in the Service's status, in place of the load balancer's own
    address of the same family;
  - a UDP port that has no TCP port on the same node port is checked by `+"`udp-connect`"+` instead of `+"`tcp`"+`,
    by which it is always down.

Set the annotation to "2" to change over, and look at what that costs first. A Service whose
annotation says "1" is read by the rules of 1, new or not. There is nothing in the cloud for
`+"`ipFamilies`"+` and `+"`appProtocol`"+`: a public load balancer always has an address of each family.
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
