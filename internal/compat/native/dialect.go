package native

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// KindPool is our own kind.
var KindPool = v1alpha1.GroupVersion.WithKind("Pool")

// Dialect is our own format: the kind Pool, and annotations fairlead.io/….
type Dialect struct{}

var (
	_ compat.Dialect = Dialect{}
	_ compat.Noter   = Dialect{}
)

// Name is native.
func (Dialect) Name() lb.Dialect { return lb.Native }

// Kinds is the kind Pool.
func (Dialect) Kinds() []compat.Kind {
	return []compat.Kind{{GroupVersionKind: KindPool, Object: &v1alpha1.Pool{}, List: func() runtime.Object { return &v1alpha1.PoolList{} },
		Without: "there are no pools of that kind"}}
}

// Read translates Pools.
func (Dialect) Read(o compat.Objects) compat.Reading {
	out := reading{unread: o.Unread[KindPool]}
	for _, object := range o.All[KindPool] {
		if p, ok := object.(*v1alpha1.Pool); ok {
			out.pools = append(out.pools, Pool(p))
		}
	}
	return out
}

// Words name our kind and our annotations.
func (Dialect) Words() lb.Words { return Words }

// Notes name the pools of the addresses, and the families whose address is from a
// DHCP server. What is out of pool goes on naming the pool that it is from: that
// says how it is announced.
func (Dialect) Notes(_ *lb.Service, v *lb.Verdict, _ string) map[string]string {
	var pools, leased []string
	for _, p := range v.Pools {
		pools = append(pools, p.String())
	}
	for _, f := range lb.Families {
		if v.DHCP[f] {
			leased = append(leased, f.String())
		}
	}
	notes := map[string]string{AnnotationDHCP: strings.Join(leased, ","), AnnotationReason: ""}
	if outOfPool := len(v.Addresses) > 0 && len(v.Pools) == 0; !outOfPool {
		notes[AnnotationAllocatedFrom] = strings.Join(pools, ",")
	} else {
		delete(notes, AnnotationDHCP)
	}
	return notes
}

// reading is what Pools say.
type reading struct {
	pools  []lb.Pool
	unread string // why they cannot be read, if they cannot
}

func (r reading) Pools() []lb.Pool       { return r.pools }
func (r reading) Warnings() []lb.Warning { return nil } // they are in the Pools' status

// Amend adds what our annotations ask for, and that Pools cannot be read.
func (r reading) Amend(q *lb.Request, s *lb.Service, in compat.Class) {
	amend(q, s, in)
	if r.unread != "" && slices.Contains(in.Dialects, lb.Native) {
		reason := lb.PoolsUnreadable.With("kind Pool", r.unread, "Install Fairlead's CRDs (chart value crds.enabled), and allow it to get, list and watch that")
		q.Unread = &reason
	}
}

// Same says whether both can be read, or neither.
func (r reading) Same(o compat.Reading) bool {
	other, ok := o.(reading)
	return ok && other.unread == r.unread
}
