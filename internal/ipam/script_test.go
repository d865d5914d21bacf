package ipam

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
	"fairlead.io/test/kit/script"
)

// TestScripts runs testdata/*.txt. The README there has the words.
func TestScripts(t *testing.T) {
	script.Commands(t, func(t *testing.T) func([]string) []string {
		s := newSmallWorld(t)
		return func(words []string) []string {
			defer checkInvariants(t, s.a)
			return s.run(words)
		}
	})
}

// smallWorld is a controller that publishes every verdict at once.
type smallWorld struct {
	t        *testing.T
	a        *Allocator
	pools    map[string]lb.Pool
	nodes    map[netip.Addr]string
	requests map[types.NamespacedName]lb.Request
	status   map[types.NamespacedName][]netip.Addr
	ages     int
}

func newSmallWorld(t *testing.T) *smallWorld {
	return &smallWorld{
		t: t, a: newAllocator(),
		pools:    map[string]lb.Pool{},
		nodes:    map[netip.Addr]string{},
		requests: map[types.NamespacedName]lb.Request{},
		status:   map[types.NamespacedName][]netip.Addr{},
	}
}

func (s *smallWorld) run(f []string) (answers []string) {
	name := ""
	if len(f) > 1 {
		name = f[1]
	}
	switch f[0] {
	case "pool":
		p := s.pool(name, f[2:])
		s.pools[name] = p
		answers = s.answers(s.a.SetPools(s.allPools()))
	case "unpool":
		delete(s.pools, name)
		answers = s.answers(s.a.SetPools(s.allPools()))
	case "node":
		s.nodes[addr(f[2])] = name
		answers = s.answers(s.a.SetOwners(Owners{Nodes: s.nodes}))
	case "unnode":
		maps.DeleteFunc(s.nodes, func(_ netip.Addr, n string) bool { return n == name })
		answers = s.answers(s.a.SetOwners(Owners{Nodes: s.nodes}))
	case "service":
		r := s.request(name, f[2:])
		answers = s.settle(r)
	case "publish": // somebody writes this status
		n := serviceName(name)
		s.status[n] = nil
		for _, x := range f[2:] {
			s.status[n] = append(s.status[n], addr(x))
		}
		answers = s.settle(s.requests[n])
	case "import": // what the restarted controller will find
		r := s.request(name, slices.DeleteFunc(slices.Clone(f[2:]), func(o string) bool {
			value, ok := strings.CutPrefix(o, "has=")
			for _, x := range strings.Split(value, ",") {
				if ok {
					s.status[serviceName(name)] = append(s.status[serviceName(name)], addr(x))
				}
			}
			return ok
		}))
		s.requests[r.Service] = r
	case "restart":
		answers = s.restart(name == "pools-last")
	case "forget":
		n := serviceName(name)
		delete(s.requests, n)
		delete(s.status, n)
		answers = s.answers(s.a.Forget(n))
	case "usage":
		for _, u := range s.a.Usage() {
			line := u.Key.String()
			for _, fam := range lb.Families {
				if n := u.Families[fam]; n.Total > 0 {
					line += fmt.Sprintf(" %s: %d total, %d used, %d free;", fam, n.Total, n.Used, n.Free)
				}
			}
			answers = append(answers, line+" "+u.Reason.String())
		}
	case "count":
		for _, c := range slices.Sorted(maps.Keys(s.a.CountByReason())) {
			answers = append(answers, fmt.Sprint(c, " ", s.a.CountByReason()[c]))
		}
	default:
		s.t.Fatalf("unknown command %q", f)
	}
	for _, c := range s.a.Contests() {
		answers = append(answers, fmt.Sprintf("%s contested: %s keeps it, %s loses it", c.Address, c.Winner, c.Loser))
	}
	return answers
}

// settle answers with the verdict about r's Service, then those of others that
// changed; a second time nothing may change.
func (s *smallWorld) settle(r lb.Request) []string {
	s.requests[r.Service] = r
	v, changed := s.a.Settle(r, s.status[r.Service])
	answers := append(s.answers([]types.NamespacedName{r.Service}), s.answers(changed)...)
	again, changed := s.a.Settle(r, v.Addresses)
	if d := cmp.Diff(v, again, compareValues); d != "" || changed != nil {
		s.t.Errorf("%s: not idempotent, changed %v:\n%s", r.Service, changed, d)
	}
	return answers
}

func (s *smallWorld) answers(changed []types.NamespacedName) (out []string) {
	for _, n := range changed {
		v, _ := s.a.Verdict(n)
		s.status[n] = v.Addresses
		out = append(out, n.String()+" "+verdictString(v))
	}
	return out
}

func verdictString(v lb.Verdict) string {
	if len(v.Addresses) == 0 {
		return "nothing; " + v.Reason.String()
	}
	line := prose.Addrs(v.Addresses)
	for i, p := range v.Pools {
		line += []string{" from ", " and "}[i] + p.String()
	}
	if v.Reason.Code != lb.Ready {
		line += "; " + v.Reason.String()
	}
	return line
}

// restart imports everything into a new allocator, in every order of a few, and
// answers with the verdicts that differ from those before.
func (s *smallWorld) restart(poolsLast bool) []string {
	before := map[types.NamespacedName]lb.Verdict{}
	names := slices.SortedFunc(maps.Keys(s.requests), func(m, n types.NamespacedName) int {
		return strings.Compare(m.String(), n.String())
	})
	for _, n := range names {
		before[n], _ = s.a.Verdict(n)
	}
	s.a = newAllocator()
	if !poolsLast {
		s.a.SetPools(s.allPools())
	}
	for _, n := range names {
		s.a.Import(s.requests[n], s.status[n])
	}
	s.a.SettleAll()
	if poolsLast {
		s.a.SetPools(s.allPools())
	}
	s.a.SetOwners(Owners{Nodes: s.nodes})
	var changed []types.NamespacedName
	for _, n := range names {
		if v, _ := s.a.Verdict(n); verdictString(v) != verdictString(before[n]) {
			changed = append(changed, n)
		}
	}
	return s.answers(changed)
}

func (s *smallWorld) allPools() []lb.Pool {
	var all []lb.Pool
	for _, name := range slices.Sorted(maps.Keys(s.pools)) {
		all = append(all, s.pools[name])
	}
	return all
}

// pool reads the words of a pool.
func (s *smallWorld) pool(name string, words []string) lb.Pool {
	p := lb.Pool{Key: poolKey(name), Created: s.age(s.pools[name].Created), QuotaName: "its quota"}
	var in, out netipx.IPSetBuilder
	for _, w := range words {
		option, value, _ := strings.Cut(w, "=")
		switch option {
		case "exclude":
			r := span(value)
			out.AddRange(r)
			p.Excluded = append(p.Excluded, r)
		case "priority":
			p.Priority = int32(number(value))
		case "quota":
			p.Quota = number(value)
		case "descending":
			p.Descending = true
		case "manual":
			p.ManualOnly = true
		case "disabled":
			p.Disabled = true
		case "exclusive":
			p.Exclusive = true
		case "may-overlap":
			p.MayOverlap = true
		case "skip-ends":
			p.SkipIPv4Ends = true
		case "link-local":
			p.LinkLocal = true
		case "by-name":
			p.GivesByName = true
		case "single-pool":
			p.SinglePool = true
		case "pinned":
			p.Pinned = true
		case "created":
			p.Created = time.Unix(int64(number(value)), 0)
		case "namespaces":
			p.Namespaces = sets.New(strings.Split(value, ",")...)
		case "except":
			p.Except = sets.New(strings.Split(value, ",")...)
		case "dhcp":
			for _, f := range strings.Split(value, ",") {
				p.DHCP[families[f]] = true
			}
		case "namespace-labels":
			p.NamespaceSelectors = append(p.NamespaceSelectors, selector(value))
		case "labels":
			p.ServiceSelectors = append(p.ServiceSelectors, selector(value))
		case "invalid":
			r := lb.PoolInvalid.With(value)
			p.Invalid = &r
		case "withheld":
			for _, x := range strings.Split(value, ",") {
				p.Withheld = append(p.Withheld, addr(x))
			}
		case "reserve":
			x, service, _ := strings.Cut(value, "@")
			if p.Reserved == nil {
				p.Reserved = map[netip.Addr]types.NamespacedName{}
			}
			p.Reserved[addr(x)] = serviceName(service)
		default:
			in.AddRange(span(w))
		}
	}
	excluded, _ := out.IPSet()
	in.RemoveSet(excluded)
	set, err := in.IPSet()
	if err != nil {
		s.t.Fatal(err)
	}
	p.Spans = set.Ranges()
	return p
}

// request reads the words of a Service. One that is there keeps its age.
func (s *smallWorld) request(name string, words []string) lb.Request {
	n := serviceName(name)
	for _, w := range words {
		if uid, ok := strings.CutPrefix(w, "uid="); ok && string(s.requests[n].UID) != uid {
			delete(s.requests, n)
			delete(s.status, n)
		}
	}
	r := lb.Request{Service: n, UID: types.UID(name), Created: s.age(s.requests[n].Created), Dialects: []lb.Dialect{lb.Native}, Families: []lb.Family{lb.IPv4}}
	for _, w := range words {
		option, value, _ := strings.Cut(w, "=")
		switch option {
		case "age":
			r.Created = time.Unix(int64(number(value)), 0)
		case "uid":
			r.UID = types.UID(value)
		case "families":
			r.Families = nil
			for _, f := range strings.Split(value, ",") {
				r.Families = append(r.Families, families[f])
			}
		case "prefer":
			r.Policy = lb.PreferDualStack
		case "require":
			r.Policy = lb.RequireDualStack
		case "address":
			r.Addresses = append(r.Addresses, addr(value))
		case "pool":
			r.Pool = value
		case "from":
			r.From = strings.Split(value, ",")
		case "key":
			r.ShareKey = value
		case "backends":
			r.Backends = value
		case "ports":
			for _, p := range strings.Split(value, ",") {
				protocol, port, _ := strings.Cut(p, "/")
				r.Ports = append(r.Ports, lb.Port{Protocol: strings.ToUpper(protocol), Number: uint16(number(port))})
			}
		case "labels":
			r.Labels = labelSet(value)
		case "namespace-labels":
			r.NamespaceLabels = labelSet(value)
		case "dialects":
			r.Dialects = nil
			for _, d := range strings.Split(value, ",") {
				r.Dialects = append(r.Dialects, lb.Dialect(d))
			}
		case "anywhere":
			r.Anywhere = true
		case "dhcp":
			for _, f := range strings.Split(value, ",") {
				r.DHCP[families[f]] = true
			}
		case "leased":
			r.Leased = append(r.Leased, addr(value))
		case "share-only":
			f := families[value]
			r.ShareOnly = &f
		case "alone":
			r.Alone = true
		case "among":
			r.ShareAmong = value
		case "reallocate":
			r.Reallocate = true
		case "invalid":
			reason := lb.InvalidRequest.With(value)
			r.Invalid = &reason
		default:
			s.t.Fatalf("unknown word %q", w)
		}
	}
	if r.Policy != lb.SingleStack && len(r.Families) == 1 {
		r.Families = []lb.Family{r.Families[0], 1 - r.Families[0]}
	}
	return r
}

// newAllocator makes one that knows what a few dialects say.
func newAllocator() *Allocator {
	a := New()
	a.SetWords(map[lb.Dialect]lb.Words{
		lb.Native:  {AddPool: "a Pool", AdmitService: "change the rules of a pool", RequestPool: "annotation fairlead.io/pool", Share: "annotation fairlead.io/share"},
		"metallb":  {AddPool: "an IPAddressPool", AdmitService: "change the rules of a pool", RequestPool: "annotation metallb.io/address-pool", Share: "annotation metallb.io/allow-shared-ip"},
		"kube-vip": {AddPool: "a key such as cidr-global", AdmitService: "add a key cidr-{namespace}", Share: "key allow-share-{namespace}"},
	})
	return a
}

var families = map[string]lb.Family{"4": lb.IPv4, "6": lb.IPv6}

func (s *smallWorld) age(known time.Time) time.Time {
	if !known.IsZero() {
		return known
	}
	s.ages++
	return time.Unix(int64(s.ages), 0)
}

func serviceName(s string) types.NamespacedName {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok {
		return types.NamespacedName{Namespace: "shop", Name: s}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func poolKey(s string) lb.PoolKey {
	dialect, name, ok := strings.Cut(s, "/")
	if !ok {
		return lb.PoolKey{Dialect: lb.Native, Name: s}
	}
	return lb.PoolKey{Dialect: lb.Dialect(dialect), Name: name}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func addr(s string) netip.Addr          { return must(lb.ParseAddr(s)) }
func span(s string) netipx.IPRange      { return must(lb.ParseSpan(s)) }
func number(s string) int               { return must(strconv.Atoi(s)) }
func selector(s string) labels.Selector { return labelSet(s).AsSelector() }
func labelSet(s string) labels.Set      { return must(labels.ConvertSelectorToLabelsMap(s)) }
