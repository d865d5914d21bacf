package cloudscale

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Tags of what we create. Keys may have letters, digits, - and _ only.
const (
	tagCluster = "k8s-cluster-name" // Options.Cluster or ClusterUID
	tagUID     = "k8s-service-uid"  // the Service's
	tagService = "k8s-service"      // its namespace and name, for people
	tagVersion = "k8s-service-config-version"
)

// Desired is what a Service asks of the cloud. It has no clock and no IDs: the
// same Service and nodes give the same Desired.
type Desired struct {
	// Gone: nothing is wanted.
	Gone bool
	compat.Settings
	Tags cloudscale.Tags
	// ZoneOfNodes is where a load balancer is made if the Service does not say.
	ZoneOfNodes string
	Endpoints   []endpoint
	// KeepMembers: there are nodes, but not one of them is known to the cloud.
	// More likely our view is incomplete, so members stay as they are.
	KeepMembers bool
	// MembersOnly: something in the Service cannot be understood. Until it can,
	// members follow the nodes, and nothing else is changed.
	MembersOnly bool
	// Nothing: not even that.
	Nothing bool
	// Contested floating IPs, and which other Services request them.
	Contested map[netip.Prefix]string
}

// decide makes the Desired of a Service that is to be served. Why it cannot be,
// or not in full, is in blocked; what else to report is in tell.
func decide(w lb.Want, f targets, settings compat.Settings, problems []compat.Problem) (d Desired, blocked *lb.Reason, tell []lb.Reason) {
	d = Desired{Settings: settings, Endpoints: f.Endpoints, Contested: contested(w, settings.FloatingIPs)}
	d.KeepMembers = f.selected > 0 && f.mapped == 0
	if len(f.Zones) == 1 {
		d.ZoneOfNodes = f.Zones[0]
	}
	if len(problems) > 0 {
		d.MembersOnly, d.Nothing = true, slices.ContainsFunc(problems, concernsMembers)
		r := invalid(problems)
		blocked = &r
	}
	for _, key := range compat.Unknown(&w.Service) {
		tell = append(tell, lb.UnknownAnnotation.With(key))
	}
	if !d.Nothing {
		tell = append(tell, f.tell(&settings, &w.Service)...)
	}
	return d, blocked, tell
}

// concernsMembers says whether members cannot be determined with this problem.
func concernsMembers(p compat.Problem) bool {
	return p.Key == compat.AnnotationNodeSelector || p.Key == compat.AnnotationAllowedSubnets || !strings.Contains(p.Key, "/")
}

func invalid(problems []compat.Problem) lb.Reason {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		if strings.Contains(p.Key, "/") {
			texts = append(texts, "Annotation "+p.String())
		} else {
			texts = append(texts, p.String())
		}
	}
	return lb.InvalidRequest.With(strings.Join(texts, "; "))
}

// place is the zone of a load balancer that is to be made, or why it cannot be
// told.
func place(d *Desired, f targets) (string, *lb.Reason) {
	switch {
	case d.Zone != "":
		return d.Zone, nil
	case len(f.Zones) > 1:
		r := Reasons.With(NodesInSeveralZones, prose.And(f.Zones))
		return "", &r
	case len(f.Zones) == 0:
		r := Reasons.With(ZoneUnknown)
		return "", &r
	default:
		return f.Zones[0], nil
	}
}

// tell returns what to report about the nodes.
func (f *targets) tell(s *compat.Settings, service *lb.Service) []lb.Reason {
	var out []lb.Reason
	if len(f.Skipped) > 0 {
		out = append(out, lb.NodesSkipped.With(strings.Join(f.Skipped, "; ")))
	}
	switch {
	case len(f.Endpoints) > 0:
	case f.receiving == 0:
		out = append(out, lb.UnAvailableLoadBalancer.With("the cluster has none that is not excluded from load balancers"))
	case f.selected == 0:
		out = append(out, lb.NoValidNodes.With(fmt.Sprintf("no node has the labels of annotation %s: %s",
			compat.AnnotationNodeSelector, service.Annotations[compat.AnnotationNodeSelector])))
	case len(s.AllowedSubnets) > 0 && f.mapped > 0:
		out = append(out, lb.NoValidNodes.With(fmt.Sprintf("no node has an address in a subnet of annotation %s: %s",
			compat.AnnotationAllowedSubnets, service.Annotations[compat.AnnotationAllowedSubnets])))
	}
	return out
}

// contested returns which of the floating IPs other Services ask for as well.
func contested(w lb.Want, wanted []netip.Prefix) map[netip.Prefix]string {
	out := map[netip.Prefix]string{}
	for _, other := range others(w) {
		for _, p := range compat.FloatingIPs(&other) {
			for _, mine := range wanted {
				if sameNetwork(p, mine) {
					out[mine] = other.Key.String()
				}
			}
		}
	}
	return out
}

// others are Services that are served, except for this one.
func others(w lb.Want) []lb.Service {
	return slices.DeleteFunc(slices.Clone(w.Peers), func(s lb.Service) bool {
		return s.UID == w.Service.UID || s.Deleting || !s.LoadBalancer
	})
}

func sameNetwork(a, b netip.Prefix) bool { return a.Addr() == b.Addr() || a.Masked() == b.Masked() }

// tags of what is made for a Service.
func (b *Backend) tags(s *lb.Service, v compat.Version) cloudscale.Tags {
	t := cloudscale.Tags{tagUID: string(s.UID), tagService: s.Key.String(), tagVersion: fmt.Sprint(int(v))}
	if b.cluster != "" {
		t[tagCluster] = b.cluster
	}
	return t
}

// lacks returns the tags that are missing or different, and all tags as they
// should be: tags of others stay.
func lacks(have, want cloudscale.Tags) (missing []string, all cloudscale.Tags) {
	all = maps.Clone(have)
	if all == nil {
		all = cloudscale.Tags{}
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if have[k] != want[k] {
			missing = append(missing, k)
			all[k] = want[k]
		}
	}
	return missing, all
}
