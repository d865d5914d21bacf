package lb

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// FormerPool is a pool that is gone, of which a Service still has an address. Its
// labels say by which selectors the address goes on being advertised. They are kept in
// our condition, which tenants cannot write.
type FormerPool struct {
	Key    PoolKey
	Labels map[string]string
}

// Before puts p in front of a reason. Nothing that a tenant has written comes before
// it.
func (p FormerPool) Before(r Reason) Reason {
	r.Text = cut(`Pool "` + string(p.Key.Dialect) + "/" + p.Key.Name + `" with the labels ` + labels.Set(p.Labels).String() + " is gone. " + r.Text)
	return r
}

var formerPool = regexp.MustCompile(`^Pool "([^"/]+)/([^"/]+)" with the labels ([^" ]+) is gone\. `)

// FormerPool returns what Before has written on s, or nil.
func (s *Service) FormerPool() *FormerPool {
	if s.Says == nil || s.Says.Code != OutOfPool {
		return nil
	}
	parts := formerPool.FindStringSubmatch(s.Says.Text)
	if parts == nil {
		return nil
	}
	out := &FormerPool{Key: PoolKey{Dialect: Dialect(parts[1]), Name: parts[2]}, Labels: map[string]string{}}
	for pair := range strings.SplitSeq(parts[3], ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil
		}
		out.Labels[key] = value
	}
	return out
}
