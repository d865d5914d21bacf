package kubevip

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/script"
)

// TestScripts reads testdata/*.txtar, each of which is the story of one Service
// after the other: "service" is how it is created, "edit" what somebody patches in
// it. "served ADDRESSES from POOLS on INTERFACE" has the patch that makes it say
// so, "waits SENTENCE" that which says why it has nothing, "released" that which
// takes everything off ("released without spec" all that can be), "deleted" that
// which lets it go. Each patch is applied before the next, and then nothing is left
// to do.
func TestScripts(t *testing.T) {
	script.Sections(t, func() script.Section {
		var s *corev1.Service
		return func(t *testing.T, name, text string) string {
			command, rest, _ := strings.Cut(name, " ")
			var make func() []byte
			switch command {
			case "service":
				s = decode(t, []byte(text))
				return text
			case "edit":
				s = apply(t, s, must(yaml.YAMLToJSON([]byte(text))))
				return text
			case "served":
				families, v, iface := verdict(t, rest)
				make = func() []byte { return patch(t, served(s, families, v, iface)) }
			case "released":
				make = func() []byte { return released(t, s, rest == "") }
			case "waits":
				make = func() []byte {
					v := lb.Verdict{Addresses: kubevip.Held(kubeapi.Service(s)), Reason: lb.InvalidRequest.With(rest)}
					return patch(t, served(s, nil, v, ""))
				}
			case "deleted":
				make = func() []byte { return patch(t, deleted(s)) }
			default:
				t.Fatalf("what is %q?", name)
			}
			p := make()
			if p != nil {
				s = apply(t, s, p)
			}
			if again := make(); again != nil {
				t.Errorf("%s: %s: after its patch there is another: %s", s.Name, name, again)
			}
			if name == "released" && (Backend{}).Marked(kubeapi.Service(s)) {
				t.Errorf("%s: still marked", s.Name)
			}
			return show(p)
		}
	})
}

// served is what is wanted of a Service with a verdict.
func served(s *corev1.Service, families []lb.Family, v lb.Verdict, iface string) lb.Want {
	return lb.Want{Service: *kubeapi.Service(s), Request: lb.Request{Families: families, Interface: iface}, Verdict: v}
}

// deleted is what is wanted of a Service that is being deleted.
func deleted(s *corev1.Service) lb.Want {
	w := lb.Want{Service: *kubeapi.Service(s), Gone: true}
	w.Service.Deleting = true
	return w
}

// released takes everything off s. Without spec it does so as for a Service that
// Fairlead announces: by its status alone.
func released(t *testing.T, s *corev1.Service, withSpec bool) []byte {
	t.Helper()
	w := lb.Want{Service: *kubeapi.Service(s), Gone: true, Request: lb.Request{Interface: "eth0"}}
	if withSpec {
		return patch(t, w)
	}
	return one(t, w, lb.Outcome{Marks: kubevip.Dialect{}.Leave(&w.Service, &w.Request)})
}

// patch is the one that Sync leads to, nil if there is none.
func patch(t failing, w lb.Want) []byte {
	out, err := Backend{}.Sync(context.Background(), w)
	if err != nil || out.Again != 0 || out.Ingress != nil {
		t.Fatalf("%v, %+v", err, out)
	}
	return one(t, w, out)
}

func one(t failing, w lb.Want, out lb.Outcome) []byte {
	p := kubeapi.Patch(&w.Service, &out, time.Time{})
	if p.Object != nil && p.Status != nil {
		t.Fatalf("two patches: %s and %s", p.Object, p.Status)
	}
	if p.Object != nil {
		return p.Object
	}
	return p.Status
}

// failing is a test, or one of many of rapid.
type failing interface {
	Fatalf(format string, args ...any)
}

// verdict reads "10.0.0.5,fd00::5 from kube-vip/cidr-global on eth0"; 0.0.0.0 and
// :: are for kube-vip to lease.
func verdict(t *testing.T, text string) (families []lb.Family, v lb.Verdict, iface string) {
	t.Helper()
	text, iface, _ = strings.Cut(text, " on ")
	list, pools, from := strings.Cut(text, " from ")
	v.Reason = lb.Ready.Say(list, "pools")
	if !from {
		v.Reason = lb.OutsidePools.Say(list)
	}
	for field := range strings.SplitSeq(list, ",") {
		a := must(lb.ParseAddr(field))
		f := lb.FamilyOf(a)
		families = append(families, f)
		if v.DHCP[f] = a.IsUnspecified(); !v.DHCP[f] {
			v.Addresses = append(v.Addresses, a)
		}
	}
	for key := range strings.SplitSeq(pools, ",") {
		if dialect, name, ok := strings.Cut(key, "/"); ok {
			v.Pools = append(v.Pools, lb.PoolKey{Dialect: lb.Dialect(dialect), Name: name})
		}
	}
	return families, v, iface
}

func decode(t *testing.T, text []byte) *corev1.Service {
	t.Helper()
	var s corev1.Service
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return &s
}

// apply does what the API server does with a patch.
func apply(t testing.TB, s *corev1.Service, patch []byte) *corev1.Service {
	t.Helper()
	out, err := applied(s, patch)
	if err != nil {
		t.Fatalf("%v in %s", err, patch)
	}
	return out
}

func applied(s *corev1.Service, patch []byte) (*corev1.Service, error) {
	merged, err := strategicpatch.StrategicMergePatch(must(json.Marshal(s)), patch, corev1.Service{})
	if err != nil {
		return nil, err
	}
	var out corev1.Service
	return &out, json.Unmarshal(merged, &out)
}

func show(patch []byte) string {
	if patch == nil {
		return "nothing\n"
	}
	return string(must(yaml.JSONToYAML(patch)))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
