package metallb

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
)

// Kinds about BGP.
const (
	KindPeer             = "BGPPeer"
	KindBGPAdvertisement = "BGPAdvertisement"
	KindProfile          = "BFDProfile"
	KindCommunity        = "Community"
)

// BGP is everything of MetalLB's kinds that is about BGP, and what its meaning depends on.
// The objects are as they are stored: one that cannot be read is reported and hides no other.
type BGP struct {
	// Namespace in which objects count; those elsewhere are reported.
	Namespace                                    string
	Peers, Advertisements, Profiles, Communities []unstructured.Unstructured
	// Secrets of that namespace, by name; nil if they are not read, and not reported on.
	Secrets map[string]Secret
	// SecretsUnread, if set, is why Secrets are not known.
	SecretsUnread string
	Pools         []metallb.IPAddressPool
	// Former is that of the reading before this one.
	Former Former
	// Nodes are the labels of all nodes. Objects that select no common node do not
	// contradict each other. If no node is known, other selectors mean other nodes.
	Nodes []labels.Set
}

// Add adds an object of one of the kinds, which is not changed.
func (b *BGP) Add(kind string, o *unstructured.Unstructured) {
	switch kind {
	case KindPeer:
		b.Peers = append(b.Peers, *o)
	case KindBGPAdvertisement:
		b.Advertisements = append(b.Advertisements, *o)
	case KindProfile:
		b.Profiles = append(b.Profiles, *o)
	case KindCommunity:
		b.Communities = append(b.Communities, *o)
	}
}

// Secret is what is read of one.
type Secret struct {
	Type string
	Data map[string][]byte
}

// Routing is what the objects mean.
type Routing struct {
	// Peers by name.
	Peers []lb.Peer
	// Former is for the next reading.
	Former Former
	// Aliases are the names of communities.
	Aliases map[string]lb.Community
	// Routes by the name of the pool, the oldest first.
	Routes map[string][]lb.Route
	// Problems has at most one report about each object.
	Problems []Problem
	// used are the advertisements that can be used, the oldest first.
	used []routed
}

// routed is an advertisement, and the route that it makes.
type routed struct {
	advertisement
	route lb.Route
}

// Orphans returns the routes for addresses of a pool that is gone: see Objects.Orphans.
func (r *Routing) Orphans(pool string, had map[string]string) []lb.Route {
	var out []lb.Route
	for i := range r.used {
		if u := &r.used[i]; u.all() || u.pools.Has(pool) || had != nil && u.selects(pool, had) {
			out = append(out, u.route)
		}
	}
	return out
}

// Translate reads all objects. Of two that contradict each other the older one counts.
func (b *BGP) Translate() Routing {
	var out Routing
	tell := func(kind string, m *metav1.ObjectMeta, r lb.Reason) {
		out.Problems = append(out.Problems, Problem{kind, types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, m.UID, r})
	}
	out.Former = newFormer()
	profiles := b.profiles(tell)
	out.Aliases = b.aliases(tell)
	out.Peers = b.peers(profiles, &out.Former, tell)
	out.Routes, out.used = b.routes(out.Aliases, out.Peers, &out.Former, tell)
	sortProblems(out.Problems)
	return out
}

// teller reports about one object.
type teller func(kind string, m *metav1.ObjectMeta, r lb.Reason)

// stored is an object that counts.
type stored[S any] struct {
	metav1.ObjectMeta
	version string
	spec    S
	wrong   faults // why the spec could not be read
}

// faults are why it could not be read or, if it could, what else is wrong with it.
func (s *stored[S]) faults(others faults) faults {
	if len(s.wrong) > 0 {
		return slices.Clone(s.wrong)
	}
	return others
}

// readAll reads the objects of one kind that count, the oldest first. Of each other it tells why.
func readAll[S any](b *BGP, kind string, objects []unstructured.Unstructured, tell teller) []stored[S] {
	var out []stored[S]
	for i := range objects {
		o := &objects[i]
		one := stored[S]{version: o.GetAPIVersion(), ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
			CreationTimestamp: o.GetCreationTimestamp(), Annotations: o.GetAnnotations()}}
		if one.Namespace != b.Namespace {
			tell(kind, &one.ObjectMeta, Reasons.With(WrongNamespace, b.Namespace))
			continue
		}
		if err := decodeSpec(o.Object["spec"], &one.spec); err != nil {
			one.wrong.add("%v", err)
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b stored[S]) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return out
}

func decodeSpec(from, into any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	err = json.Unmarshal(text, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: a %s cannot be used here", wrong.Field, wrong.Value)
	}
	return err
}
