package metallb

import (
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	apimetallb "fairlead.io/api/metallb"
)

func TestPlanBGP(t *testing.T) {
	object := func(name, service string, owner types.UID, peers ...any) unstructured.Unstructured {
		o := unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"node": "a", "peers": peers}}}
		o.SetName(name)
		o.SetLabels(map[string]string{apimetallb.LabelNode: "a", apimetallb.LabelServiceNamespace: "shop", apimetallb.LabelServiceName: service})
		o.SetOwnerReferences([]metav1.OwnerReference{{UID: owner}})
		return o
	}
	want := map[types.NamespacedName][]string{}
	for _, name := range []string{"same", "other", "new", "twice", "foreign"} {
		want[types.NamespacedName{Namespace: "shop", Name: name}] = []string{"tor-1", "tor-2"}
	}
	have := []unstructured.Unstructured{
		object("bgp-1", "same", "me", "tor-1", "tor-2"), object("bgp-2", "other", "me", "tor-1"), object("bgp-3", "gone", "me", "tor-1"),
		object("bgp-5", "twice", "me", "tor-1", "tor-2"), object("bgp-4", "twice", "me", "tor-1", "tor-2"), object("bgp-6", "foreign", "before", "tor-1", "tor-2"),
	}
	var got []string
	for _, s := range planBGP("a", "me", want, have) {
		got = append(got, fmt.Sprintf("%s %s %s", s.verb, s.service.Name, s.object))
	}
	if diff := gocmp.Diff([]string{"create foreign ", "delete foreign bgp-6", "delete gone bgp-3", "create new ", "write other bgp-2", "delete twice bgp-5"}, got); diff != "" {
		t.Error(diff)
	}
}
