// Package metallb translates MetalLB's CRDs and annotations into values of package
// lb. An object that cannot be used is reported and does not affect others.
//
// It knows nothing of clients or caches: the caller reads the objects, and calls it
// again when one has changed. The order of objects does not matter.
package metallb

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
)

// Kinds that are read.
const (
	KindPool          = "IPAddressPool"
	KindAdvertisement = "L2Advertisement"
)

// Objects is everything of MetalLB's kinds that there is.
type Objects struct {
	// Namespace in which objects count; those elsewhere are reported.
	Namespace      string
	Pools          []metallb.IPAddressPool
	Advertisements []metallb.L2Advertisement
	// BGP has the objects about BGP; its Namespace and Pools are those above.
	BGP BGP
}

// Problem is a report about one object. Every pool and every advertisement that
// cannot be used has one. An advertisement that applies has one, too, which is not a
// warning: AdvertisementReady.
type Problem struct {
	Kind   string
	Object types.NamespacedName
	UID    types.UID
	Reason lb.Reason
}

// sortProblems puts them in an order that does not depend on that of the objects.
func sortProblems(all []Problem) {
	slices.SortFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Object.Namespace, b.Object.Namespace),
			cmp.Compare(a.Object.Name, b.Object.Name))
	})
}
