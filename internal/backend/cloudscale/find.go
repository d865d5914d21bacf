package cloudscale

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// found is which load balancers are a Service's.
type found struct {
	own     []cloudscale.LoadBalancer
	surplus []cloudscale.LoadBalancer // made twice, and not used
	reason  *lb.Reason                // why none of them may be touched
}

// find looks for a Service's load balancer: by the UUID that is written down, and
// by its name. It answers to one at most; of several none is touched, unless
// they are certainly its own: made by us for this Service, or to go with it.
func (b *Backend) find(w lb.Want, all []cloudscale.LoadBalancer) found {
	uuid, name := compat.UUID(&w.Service), compat.Name(&w.Service)
	var f found
	for _, o := range all {
		if o.UUID != uuid && (o.Name != name || name == "") {
			continue
		}
		if owner := b.ownerOf(&o, w); owner != "" {
			r := Reasons.With(LoadBalancerTaken, o.Name, owner)
			f.reason = &r
			continue
		}
		f.own = append(f.own, o)
	}
	if len(f.own) < 2 {
		if len(f.own) == 1 || w.Gone {
			f.reason = nil // the other one is not looked at
		}
		return f
	}
	if w.Gone {
		var certain []cloudscale.LoadBalancer
		for _, o := range f.own {
			if o.UUID == uuid || o.Name == compat.DefaultName(&w.Service) || o.Tags[tagUID] == string(w.Service.UID) {
				certain = append(certain, o)
			}
		}
		if len(certain) > 0 {
			return found{own: certain}
		}
	}
	if !w.Gone && twins(&w.Service, f.own) {
		return f // see chooseTwin
	}
	return ambiguous(f.own)
}

// ownerOf returns whose a load balancer is, if it is not that of the Service: another
// cluster's, whose tag it has, whatever the Service says; that of another Service, by
// our tags, or by its name, or because an older Service says so as well.
func (b *Backend) ownerOf(o *cloudscale.LoadBalancer, w lb.Want) string {
	if cluster := o.Tags[tagCluster]; cluster != "" && !b.mine(cluster) && !slices.Contains(b.adoptFrom, cluster) {
		return "cluster " + prose.Quote(cluster)
	}
	uid := o.Tags[tagUID]
	if uid == string(w.Service.UID) {
		return ""
	}
	if uid != "" && w.Lives != nil {
		if other, lives := w.Lives(types.UID(uid)); lives {
			return "Service " + other.String()
		}
	}
	for _, other := range others(w) {
		says := compat.UUID(&other) == o.UUID
		switch {
		case uid == "" && o.Name == compat.DefaultName(&other),
			uid == "" && says && (compat.UUID(&w.Service) != o.UUID || older(&other, &w.Service)):
			return "Service " + other.Key.String()
		}
	}
	return ""
}

// mine says whether cluster, in a tag, is this one.
func (b *Backend) mine(cluster string) bool {
	return cluster != "" && (cluster == b.cluster || cluster == b.clusterUID)
}

// older says whether a is older than b: by creation time, then by UID.
func older(a, b *lb.Service) bool {
	if !a.Created.Equal(b.Created) {
		return a.Created.Before(b.Created)
	}
	return a.UID < b.UID
}

// version by which a Service is read: as it says; if it does not, as its load
// balancer was made. One that was there before us is read as it was then.
func version(s *lb.Service, own *cloudscale.LoadBalancer) compat.Version {
	if v := compat.ConfigVersion(s); v != 0 {
		return v
	}
	if own == nil || own.Tags[tagVersion] == fmt.Sprint(int(compat.VersionCurrent)) {
		return compat.VersionCurrent
	}
	return compat.VersionUpstream
}
