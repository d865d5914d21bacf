package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/snapshot"
	"fairlead.io/test/kit/rig"
)

func mergePatch(t *testing.T, of map[string]any) client.Patch {
	t.Helper()
	data, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return client.RawPatch(types.MergePatchType, data)
}

// plan runs "plan" and reads its answer.
func plan(t *testing.T, args ...string) (p snapshot.Plan) {
	t.Helper()
	got, code := run(t, append([]string{"plan", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(got), &p); err != nil {
		t.Fatalf("exit %d: %v\n%s", code, err, got)
	}
	return p
}

// What plan --drain predicts is what then happens.
func TestPlanDrainIsWhatHappens(t *testing.T) {
	w := newWorld(t)
	w.install("n1", "n2", "n3")
	w.pool("edge", "192.0.2.16/28")
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("web%d", i))
		w.service(names[i], nil, "n1", "n2", "n3")
	}
	w.announced(names...)
	before := map[string]string{}
	for _, name := range names {
		by, err := w.announcer(name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = by
	}
	drained := before["web0"]
	want := maps.Clone(before)
	moves := plan(t, "--drain", drained).Moves
	if len(moves) == 0 {
		t.Fatalf("nothing moves from %s: %v", drained, before)
	}
	for _, m := range moves {
		_, name, _ := strings.Cut(m.Services[0], "/")
		if m.From != drained || m.From != before[name] || m.To == "" || m.To == drained {
			t.Errorf("predicted %+v, of %v", m, before)
		}
		want[name] = m.To
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: drained}}
	if err := theRig.Client.Patch(t.Context(), n, mergePatch(t, map[string]any{"spec": map[string]any{"unschedulable": true}})); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "what was predicted has happened", func() error {
		got := map[string]string{}
		for _, name := range names {
			by, err := w.announcer(name)
			if err != nil {
				return err
			}
			got[name] = by
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("predicted -, happened +:\n%s", diff)
		}
		return nil
	})
	if got, _ := run(t, "plan", "--drain", drained); !strings.Contains(got, "✓ Nothing changes.\n") {
		t.Error(got)
	}
	if got, code := run(t, "plan", "--drain", "ghost"); code != 2 || got != "fairlead: unknown: there is no node ghost; there are n1, n2 and n3\n" {
		t.Errorf("exit %d: %s", code, got)
	}
}

// What plan --remove and plan -f predict is what then happens.
func TestPlanPoolsIsWhatHappens(t *testing.T) {
	w := newWorld(t)
	w.install("n1", "n2")
	w.pool("edge", "192.0.2.16", "192.0.2.17")
	for _, name := range []string{"a", "b"} {
		w.service(name, nil, "n1", "n2")
		w.announced(name)
	}
	w.service("c", nil, "n1", "n2")
	reasons := func() map[string]string {
		var list corev1.ServiceList
		if err := theRig.Client.List(t.Context(), &list, client.InNamespace("shop")); err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, s := range list.Items {
			for _, c := range s.Status.Conditions {
				if c.Type == "fairlead.io/Ready" {
					out["shop/"+s.Name] = c.Reason
				}
			}
			for _, in := range s.Status.LoadBalancer.Ingress {
				out["shop/"+s.Name] += " " + in.IP
			}
		}
		return out
	}
	rig.Eventually(t, "c waits", func() error {
		if got := reasons()["shop/c"]; got != "PoolExhausted" {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
	predicted := func(args ...string) map[string]string {
		out := reasons()
		for _, c := range plan(t, args...).Services {
			out[c.Service] = strings.TrimSpace(c.Reason + " " + strings.Join(c.After, " "))
		}
		return out
	}
	happens := func(what string, want map[string]string, change func() error) {
		t.Helper()
		if cmp.Equal(want, reasons()) {
			t.Errorf("%s: nothing is predicted: %v", what, want)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		rig.Eventually(t, what, func() error {
			if diff := cmp.Diff(want, reasons()); diff != "" {
				return fmt.Errorf("predicted -, happened +:\n%s", diff)
			}
			return nil
		})
	}
	file := filepath.Join(t.TempDir(), "pool.yaml")
	grown := `{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: edge}, spec: {addresses: [192.0.2.16-192.0.2.19]}}`
	if err := os.WriteFile(file, []byte(grown), 0o600); err != nil {
		t.Fatal(err)
	}
	edge := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	happens("the pool grows", predicted("-f", file), func() error {
		return theRig.Client.Patch(t.Context(), edge, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"addresses":["192.0.2.16-192.0.2.19"]}}`)))
	})
	w.announced("c")
	expect(t, "plan --remove 192.0.2.16", 0, `
remove addresses 192.0.2.16   (facts of TIME)
service shop/a   192.0.2.16 → 192.0.2.16   none: the Service keeps its address and is reachable
    OutOfPool: The Service keeps 192.0.2.16, which is in no pool any more. Add that to a pool again, or set the annotation fairlead.io/reallocate: "true" to move the Service.
`)
	happens("an address is removed", predicted("--remove", "192.0.2.16"), func() error {
		return theRig.Client.Patch(t.Context(), edge, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"addresses":["192.0.2.17-192.0.2.19"]}}`)))
	})
	happens("the pool is removed", predicted("--remove", "edge"), func() error { return theRig.Client.Delete(t.Context(), edge) })
}

func TestAddresses(t *testing.T) {
	w := newWorld(t)
	w.install("n1")
	w.pool("edge", "192.0.2.16/30")
	w.pool("second", "192.0.2.32-192.0.2.33")
	w.service("web", nil, "n1")
	w.announced("web")
	rig.Eventually(t, "ip lists the address", func() error {
		got, code := run(t, "ip")
		want := "ADDRESS      POOL   SERVICE    NODE   INTERFACE   FOR\n192.0.2.16   edge   shop/web   n1     eth0        "
		if code != 0 || !strings.HasPrefix(got, want) {
			return fmt.Errorf("exit %d: %s", code, got)
		}
		return nil
	})
	expect(t, "ip --free", 0, `
POOL     FREE
edge     192.0.2.17-192.0.2.19
second   192.0.2.32-192.0.2.33
`)
	expect(t, "ip --pool second --free", 0, `
POOL     FREE
second   192.0.2.32-192.0.2.33
`)
	var doc struct {
		APIVersion, Kind string
		Addresses        []snapshot.Address
	}
	got, code := run(t, "ip", "-o", "json")
	if err := json.Unmarshal([]byte(got), &doc); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, got)
	}
	if doc.APIVersion != "fairlead.io/v1alpha1" || doc.Kind != "Addresses" || len(doc.Addresses) != 1 || doc.Addresses[0].Node != "n1" {
		t.Errorf("%+v", doc)
	}
	for _, test := range [][]string{{"why", "shop/w"}, {"ip", "--pool", "ed"}, {"plan", "--drain", "n"}, {"plan", "--remove", "sec"}, {"why", "192"}} {
		want := map[string]string{"shop/w": "shop/web", "ed": "edge", "n": "n1", "sec": "second", "192": "192.0.2.16"}[test[len(test)-1]]
		t.Setenv("KUBECONFIG", theRig.API.Kubeconfig)
		if got := complete(t, test...); got != want {
			t.Errorf("%q is completed by %q, want %q", test, got, want)
		}
	}
}
