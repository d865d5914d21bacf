package announce_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"fairlead.io/internal/backend/announce"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
	"fairlead.io/test/kit/script"
)

// replacing is a backend beside which kube-vip's cloud provider was.
var replacing = &announce.Backend{
	Dialects: []compat.Dialect{native.Dialect{}, metallb.Dialect{}, kubevip.Dialect{}},
	Leavers:  []compat.Leaver{kubevip.Dialect{}},
}

// noon is when everything is written.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestScripts reads testdata/*.txtar, each of which is the story of one Service
// after the other: "service" is how it is created, "edit" what somebody patches in
// it. Below the following sections is the patch of its status that they lead to:
// "served ADDRESSES from POOLS at NODE", "waits SENTENCE", "gone" for a Service that
// is no longer served, "gone, never served" for one that was not since the controller
// started, and "deleted". Each patch is applied before the next, and then nothing is
// left to do. "held" says what the Service is known to have.
func TestScripts(t *testing.T) {
	script.Sections(t, func() script.Section {
		s := &corev1.Service{}
		return func(t *testing.T, name, text string) string {
			command, rest, _ := strings.Cut(name, " ")
			var w lb.Want
			switch command {
			case "service":
				s = &corev1.Service{}
				if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
					t.Fatal(err)
				}
				return text
			case "edit":
				raw, err := yaml.YAMLToJSON([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				s = applied(t, s, raw)
				return text
			case "held":
				return showHeld(replacing.Held(kubeapi.Service(s)))
			case "served":
				w = served(t, rest)
			case "waits":
				w.Verdict.Reason = lb.InvalidRequest.With(rest)
			case "gone", "gone,":
				w.Gone, w.Known = true, rest == ""
			case "deleted":
				w.Gone = true
			default:
				t.Fatalf("what is %q?", name)
			}
			out := look(t, s, w, command == "deleted")
			p := kubeapi.Patch(kubeapi.Service(s), &out, noon)
			if p.Object != nil {
				t.Errorf("%s: the object itself is written: %s", name, p.Object)
			}
			if p.Empty() {
				return "nothing\n"
			}
			s = applied(t, s, p.Status)
			again := look(t, s, w, command == "deleted")
			if p := kubeapi.Patch(kubeapi.Service(s), &again, noon.Add(time.Hour)); !p.Empty() {
				t.Errorf("%s: after its patch there is another: %s", name, p.Status)
			}
			shown, err := yaml.JSONToYAML(p.Status)
			if err != nil {
				t.Fatal(err)
			}
			if out.Owns != "" {
				return string(shown) + "# owns " + out.Owns + "\n"
			}
			return string(shown)
		}
	})
}

func look(t *testing.T, s *corev1.Service, w lb.Want, deleting bool) lb.Outcome {
	t.Helper()
	w.Service = *kubeapi.Service(s)
	w.Service.Deleting = w.Service.Deleting || deleting
	out, err := replacing.Sync(t.Context(), w)
	if err != nil || out.Again != 0 || out.Gone != w.Gone {
		t.Fatalf("%v, %+v", err, out)
	}
	return out
}

// served reads "192.0.2.7,2001:db8::7 from edge,metallb/lan at worker-1". Without
// pools, the addresses are out of pool.
func served(t *testing.T, text string) lb.Want {
	t.Helper()
	var w lb.Want
	text, w.Carrier, _ = strings.Cut(text, " at ")
	list, pools, from := strings.Cut(text, " from ")
	for field := range strings.SplitSeq(list, ",") {
		a, err := lb.ParseAddr(field)
		if err != nil {
			t.Fatal(err)
		}
		w.Verdict.Addresses = append(w.Verdict.Addresses, a)
	}
	if !from {
		w.Verdict.Reason = lb.OutOfPool.With(prose.Addrs(w.Verdict.Addresses), "is in no pool")
		return w
	}
	for key := range strings.SplitSeq(pools, ",") {
		dialect, name, prefixed := strings.Cut(key, "/")
		if !prefixed {
			dialect, name = string(lb.Native), key
		}
		w.Verdict.Pools = append(w.Verdict.Pools, lb.PoolKey{Dialect: lb.Dialect(dialect), Name: name})
	}
	w.Verdict.Reason = lb.Ready.Say(prose.Addrs(w.Verdict.Addresses), "pool "+pools)
	return w
}

// applied does what the API server does with a patch.
func applied(t *testing.T, s *corev1.Service, patch []byte) *corev1.Service {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(raw, patch, corev1.Service{})
	if err != nil {
		t.Fatalf("%v in %s", err, patch)
	}
	var out corev1.Service
	if err := json.Unmarshal(merged, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func showHeld(h lb.Held) string {
	evidence := map[lb.Evidence]string{lb.Proven: "proven", lb.Reported: "reported", lb.Asserted: "asserted"}[h.Evidence]
	return fmt.Sprintf("%v, %s, current: %v, left: %v\n", h.Addresses, evidence, h.Current, h.Left)
}
