// Package kubevip translates the ConfigMap of kube-vip's cloud provider, and the
// annotations that it and kube-vip read and write, into values of package lb. A
// value that cannot be used is reported and does not affect others; one that restricts,
// and cannot be read, counts as the strict one.
package kubevip

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/lb"
)

const (
	// AnnotationGiven is native.AnnotationGiven.
	AnnotationGiven = "fairlead.io/given"
	// AnnotationAsked is native.AnnotationAsked.
	AnnotationAsked = "fairlead.io/asked"
	// AnnotationProof is native.AnnotationProof.
	AnnotationProof = "proof.fairlead.io/given"
)

// Label says that kube-vip's cloud provider, or Fairlead in its place, looked
// after a Service.
const (
	Label      = "implementation"
	LabelValue = "kube-vip"
	// LabelOld had a Service's address, long ago.
	LabelOld = "ipam-address"
)

// DefaultClass is served where class mode is switched on and names no other.
const DefaultClass = "kube-vip.io/kube-vip-class"

// Config is what the ConfigMap says.
type Config struct {
	// Present says whether there is a ConfigMap.
	Present bool
	// Pools, of which each namespace may use one at most.
	Pools []lb.Pool
	// Problems are sentences about keys, in the order of the keys.
	Problems []Problem

	interfaces map[string]string
	share      map[string]bool
	// poolOf has the key of the pool of each namespace that has one of its own;
	// global is that of all others.
	poolOf map[string]string
	global string
	// strict: addresses outside of the pools are refused.
	strict bool
}

// Problem is something wrong with one key of the ConfigMap.
type Problem struct {
	Key    string
	Reason lb.Reason
}

// Interface on which Services of a namespace are announced; "" if that is not
// said, or no ConfigMap is read.
func (c *Config) Interface(namespace string) string {
	if c == nil {
		return ""
	}
	return c.inNamespace(c.interfaces, namespace)
}

// Interfaces that are named for any namespace.
func (c *Config) Interfaces() []string {
	if c == nil {
		return nil
	}
	return slices.Sorted(maps.Values(c.interfaces))
}

func (c *Config) inNamespace(values map[string]string, namespace string) string {
	if v, ok := values[namespace]; ok {
		return v
	}
	return values[global]
}

// shares says whether Services of a namespace live on one address where their
// ports allow.
func (c *Config) shares(namespace string) bool {
	if yes, ok := c.share[namespace]; ok {
		return yes
	}
	return c.share[global]
}

// Anywhere says whether Services of a class, the first of whose pools are those of
// a dialect, may have addresses outside of their pools by asking for them.
func (c *Config) Anywhere(first lb.Dialect) bool {
	return c != nil && (c.Present || first == Name) && !c.strict
}

// SameForServices says whether c and o say the same about Services, be the
// addresses in the pools others.
func (c *Config) SameForServices(o *Config) bool {
	return c.Present == o.Present && c.global == o.global && c.strict == o.strict && maps.Equal(c.interfaces, o.interfaces) && maps.Equal(c.share, o.share) && maps.Equal(c.poolOf, o.poolOf)
}

// PoolKey returns the key of the one pool for a namespace, or "".
func (c *Config) PoolKey(namespace string) string {
	if key, ok := c.poolOf[namespace]; ok {
		return key
	}
	return c.global
}

// namespaces that have a pool of their own.
func (c *Config) namespaces() sets.Set[string] { return sets.KeySet(c.poolOf) }

func (c *Config) tell(key string, reason lb.Reason) {
	c.Problems = append(c.Problems, Problem{key, reason})
}

func (c *Config) sort() {
	slices.SortStableFunc(c.Problems, func(a, b Problem) int {
		if a.Key < b.Key {
			return -1
		} else if a.Key > b.Key {
			return 1
		}
		return 0
	})
}
