package kubevip

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// cluster is Services, what is decided about them and what is written on them.
type cluster struct {
	fails    func(format string, args ...any)
	config   *kubevip.Config
	ledger   *ipam.Allocator
	services map[string]*corev1.Service
	has      map[string]lb.Verdict // of those on which it was written
}

// Fatalf fails the test.
func (c *cluster) Fatalf(format string, args ...any) { c.fails(format, args...) }

func (c *cluster) request(s *corev1.Service) lb.Request {
	readings := compat.Readings{
		{Dialect: native.Dialect{}, Reading: native.Dialect{}.Read(compat.Objects{})},
		{Dialect: kubevip.Dialect{}, Reading: &kubevip.Reading{Config: c.config}},
	}
	return readings.Request(kubeapi.Service(s), nil, compat.Class{Dialects: []lb.Dialect{kubevip.Name}, Words: Backend{}.Words()})
}

// settle does what the controller does with a Service, and then with those that it
// changes something for.
func (c *cluster) settle(names ...string) {
	for len(names) > 0 {
		s := c.services[names[0]]
		r := c.request(s)
		v, changed := c.ledger.Settle(r, kubevip.Held(kubeapi.Service(s)))
		if Serves(v) {
			c.write(names[0], v)
		} else if p := patch(c, served(s, r.Families, v, r.Interface)); p != nil {
			c.services[names[0]] = must(applied(s, p))
		}
		names = append(names[1:], namesOf(changed)...)
	}
}

func namesOf(services []types.NamespacedName) (out []string) {
	for _, s := range services {
		out = append(out, s.Name)
	}
	return out
}

// write writes v, the answer, onto a Service.
func (c *cluster) write(name string, v lb.Verdict) {
	s := c.services[name]
	r := c.request(s)
	before, _ := kubevip.Requested(kubeapi.Service(s))
	text := s.Annotations[kubevip.AnnotationAddresses]
	if p := patch(c, served(s, r.Families, v, c.config.Interface(s.Namespace))); p != nil {
		s = must(applied(s, p))
		c.services[name] = s
	}
	value := kubeapi.Service(s)
	after, inSpec := kubevip.Requested(value)
	if after != before || before != "" && !inSpec && s.Annotations[kubevip.AnnotationAddresses] != text {
		c.fails("%s: asked for %q in %q; afterwards for %q in %q", name, before, text, after, s.Annotations[kubevip.AnnotationAddresses])
	}
	held := kubevip.Held(value)
	if !sameAddresses(held, v.Addresses) || kubevip.Noted(value) && !kubevip.Attested(value) || s.Labels[kubevip.Label] != kubevip.LabelValue {
		c.fails("%s has %v (%s), and is read as having %v", name, v.Addresses, v.Reason, held)
	}
	again, _ := c.ledger.Settle(c.request(s), held)
	if again.Reason != v.Reason || !slices.Equal(again.Addresses, v.Addresses) {
		c.fails("%s: first %v (%s), then %v (%s)", name, v.Addresses, v.Reason, again.Addresses, again.Reason)
	}
	if p := patch(c, served(s, c.request(s).Families, again, "eth9")); p != nil {
		c.fails("%s: written twice: %s", name, p)
	}
	c.has[name] = v
}

func sameAddresses(held, has []netip.Addr) bool {
	sorted := func(all []netip.Addr) []netip.Addr { return slices.SortedFunc(slices.Values(all), netip.Addr.Compare) }
	return slices.Equal(sorted(held), sorted(has))
}

func includes(all, some []netip.Addr) bool {
	return !slices.ContainsFunc(some, func(a netip.Addr) bool { return !slices.Contains(all, a) })
}

// restart forgets everything but what is written on Services.
func (c *cluster) restart() {
	c.ledger = ipam.New()
	c.ledger.SetPools(c.config.Pools)
	for _, name := range c.names() {
		c.ledger.Import(c.request(c.services[name]), kubevip.Held(kubeapi.Service(c.services[name])))
	}
	c.ledger.SettleAll()
	defer func() { c.settle(c.names()...) }()
	for name, was := range c.has {
		if v, _ := c.ledger.Verdict(types.NamespacedName{Namespace: c.services[name].Namespace, Name: name}); !includes(v.Addresses, was.Addresses) {
			c.fails("%s had %v and has %v (%s) after a restart", name, was.Addresses, v.Addresses, v.Reason)
		}
	}
}

func (c *cluster) names() []string { return slices.Sorted(maps.Keys(c.services)) }

var configs = []map[string]string{
	{"cidr-global": "10.0.0.0/29,fd00::/125", "allow-share-global": "true", "interface-global": "eth0"},
	{"cidr-global": "10.0.0.0/29,fd00::/125", "range-team": "10.0.0.4-10.0.0.9", "pool-precedence": "namespace-first"},
	{"range-global": "10.0.0.2-10.0.0.4", "cidr-team": "0.0.0.0/32,fd00::/126", "interface-team": "eth1"},
	{"range-global": "10.0.0.2-10.0.0.1", "cidr-team": "::/128,10.0.0.0/30"},
	{},
}

// TestServicesKeepWhatIsWritten: whatever people write onto Services and into the
// ConfigMap, and whatever kube-vip's cloud provider left: what is written once is
// not written again, what was given is not a request and stays, also after a restart,
// and what somebody asks for stays in his words.
func TestServicesKeepWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{ledger: ipam.New(), services: map[string]*corev1.Service{}, has: map[string]lb.Verdict{}}
		c.fails = func(format string, args ...any) { t.Fatalf(format, args...) }
		configure := func(t *rapid.T) {
			c.config = kubevip.Parse(&corev1.ConfigMap{Data: rapid.SampledFrom(configs).Draw(t, "config")})
			c.settle(namesOf(c.ledger.SetPools(c.config.Pools))...)
			c.settle(c.names()...) // its words are read anew
		}
		configure(t)
		requests := rapid.SampledFrom([]string{"", "10.0.0.3", "10.0.0.4, fd00::4", "fd00::5", "0.0.0.0", "203.0.113.9", "::,10.0.0.5", "x", "0.0.0.0,10.0.0.1"})
		addresses := rapid.SampledFrom([]string{"", "10.0.0.3", "fd00::4", "0.0.0.0", "10.0.0.6"})
		pick := func(t *rapid.T) string { return rapid.SampledFrom(c.names()).Draw(t, "service") }
		create := func(t *rapid.T) {
			s := drawService(t, len(c.services))
			if asks := requests.Draw(t, "asks"); asks != "" {
				s.Annotations[kubevip.AnnotationAddresses] = asks
			}
			s.Spec.LoadBalancerIP = addresses.Draw(t, "in the spec")
			c.services[s.Name] = s
			c.settle(s.Name)
		}
		create(t) // one at least, to pick
		t.Repeat(map[string]func(*rapid.T){
			"configure": configure,
			"restart":   func(*rapid.T) { c.restart() },
			"create":    create,
			"left": func(t *rapid.T) { // by kube-vip's cloud provider, with addresses of its own
				s := drawService(t, len(c.services))
				s.Labels[kubevip.Label] = kubevip.LabelValue
				n := len(c.services) + 1
				var list []string
				for _, f := range s.Spec.IPFamilies {
					list = append(list, map[corev1.IPFamily]string{corev1.IPv4Protocol: fmt.Sprintf("10.1.0.%d", n), corev1.IPv6Protocol: fmt.Sprintf("fd01::%d", n)}[f])
				}
				s.Annotations[kubevip.AnnotationAddresses] = strings.Join(list, ",")
				s.Spec.LoadBalancerIP = list[0]
				c.services[s.Name] = s
				c.settle(s.Name)
				if v := c.has[s.Name]; v.Reason.Code != lb.OutOfPool || Text(c.request(s).Families, v) != strings.Join(list, ",") {
					t.Fatalf("%s had %v and has %v (%s)", s.Name, list, v.Addresses, v.Reason)
				}
			},
			"annotate": func(t *rapid.T) {
				name := pick(t)
				c.services[name].Annotations[kubevip.AnnotationAddresses] = requests.Draw(t, "asks")
				delete(c.has, name) // it may move
			},
			"specify": func(t *rapid.T) {
				name := pick(t)
				c.services[name].Spec.LoadBalancerIP = addresses.Draw(t, "in the spec")
				delete(c.has, name)
			},
			"settle": func(t *rapid.T) { c.settle(pick(t)) },
		})
	})
}

func drawService(t *rapid.T, n int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: rapid.SampledFrom([]string{"shop", "team"}).Draw(t, "namespace"), Name: fmt.Sprintf("s%d", n), UID: types.UID(fmt.Sprint(n)),
		CreationTimestamp: metav1.NewTime(time.Unix(int64(n), 0)), Annotations: map[string]string{}, Labels: map[string]string{},
	}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.IPFamilies = rapid.SampledFrom([][]corev1.IPFamily{{corev1.IPv4Protocol}, {corev1.IPv6Protocol}, {corev1.IPv4Protocol, corev1.IPv6Protocol}, {corev1.IPv6Protocol, corev1.IPv4Protocol}}).Draw(t, "families")
	if policy := corev1.IPFamilyPolicyPreferDualStack; len(s.Spec.IPFamilies) > 1 {
		if rapid.Bool().Draw(t, "require") {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		s.Spec.IPFamilyPolicy = &policy
	}
	s.Spec.Ports = []corev1.ServicePort{{Port: int32(rapid.IntRange(1, 3).Draw(t, "port")), Protocol: corev1.ProtocolTCP}}
	return s
}
