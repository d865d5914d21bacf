package metallb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/internal/agent"
)

// l2Of makes a ServiceL2Status as there may be one. text is "name node service
// interfaces…"; a node with "?" after it has not written a status.
func l2Of(text string, change ...func(*apimetallb.ServiceL2Status)) apimetallb.ServiceL2Status {
	f := strings.Fields(text)
	node, blank := strings.CutSuffix(f[1], "?")
	service := types.NamespacedName{Namespace: "shop", Name: f[2]}
	o := *l2Object("metallb-system", node, metav1.OwnerReference{UID: "owner-of-" + types.UID(node)}, service)
	o.Name = f[0]
	if !blank {
		o.Status = l2Status(node, service, agent.Presence{Interfaces: f[3:]})
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func TestPlanOfServiceL2Statuses(t *testing.T) {
	web, db := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "db"}
	speakers := func(o *apimetallb.ServiceL2Status) {
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "speaker-x", UID: "pod"}}
	}
	for _, test := range []struct {
		name string
		want map[types.NamespacedName]agent.Presence
		have []apimetallb.ServiceL2Status
		plan []string
	}{
		{name: "nothing"},
		{name: "new", want: map[types.NamespacedName]agent.Presence{web: {}}, plan: []string{"create  shop/web"}},
		{name: "as it is", want: map[types.NamespacedName]agent.Presence{web: {Interfaces: []string{"eth0"}}}, have: []apimetallb.ServiceL2Status{l2Of("l2-1 a web eth0")}},
		{name: "on another interface", want: map[types.NamespacedName]agent.Presence{web: {Interfaces: []string{"eth1"}}}, have: []apimetallb.ServiceL2Status{l2Of("l2-1 a web eth0")},
			plan: []string{"write l2-1 shop/web"}},
		{name: "on all interfaces now", want: map[types.NamespacedName]agent.Presence{web: {}}, have: []apimetallb.ServiceL2Status{l2Of("l2-1 a web eth0")}, plan: []string{"write l2-1 shop/web"}},
		{name: "the agent was killed before it wrote the status", want: map[types.NamespacedName]agent.Presence{web: {}}, have: []apimetallb.ServiceL2Status{l2Of("l2-1 a? web")}, plan: []string{"write l2-1 shop/web"}},
		{name: "no longer here", have: []apimetallb.ServiceL2Status{l2Of("l2-1 a web")}, plan: []string{"delete l2-1 shop/web"}},
		{name: "another node's affair", have: []apimetallb.ServiceL2Status{l2Of("l2-1 b web")}},
		{name: "taken over", want: map[types.NamespacedName]agent.Presence{web: {}}, have: []apimetallb.ServiceL2Status{l2Of("l2-1 b web"), l2Of("l2-2 b db")},
			plan: []string{"create  shop/web", "delete l2-1 shop/web"}},
		{name: "another node has another address of it", want: map[types.NamespacedName]agent.Presence{web: {Others: sets.New("b")}}, have: []apimetallb.ServiceL2Status{l2Of("l2-1 b web"), l2Of("l2-2 a web"), l2Of("l2-3 c web")},
			plan: []string{"delete l2-3 shop/web"}},
		{name: "one is enough", want: map[types.NamespacedName]agent.Presence{web: {}}, have: []apimetallb.ServiceL2Status{l2Of("l2-2 a web"), l2Of("l2-1 a web")}, plan: []string{"delete l2-2 shop/web"}},
		{name: "of the speaker on this node", want: map[types.NamespacedName]agent.Presence{web: {}}, have: []apimetallb.ServiceL2Status{l2Of("l2-1 a web", speakers)},
			plan: []string{"create  shop/web", "delete l2-1 shop/web"}},
		{name: "of the speaker on another node", want: map[types.NamespacedName]agent.Presence{web: {}, db: {}}, have: []apimetallb.ServiceL2Status{l2Of("l2-1 b web", speakers), l2Of("l2-2 a db")},
			plan: []string{"create  shop/web", "delete l2-1 shop/web"}},
		{name: "what cannot be changed is wrong", want: map[types.NamespacedName]agent.Presence{web: {}}, have: []apimetallb.ServiceL2Status{l2Of("l2-1 a web", func(o *apimetallb.ServiceL2Status) { o.Status.Node = "z" })},
			plan: []string{"create  shop/web", "delete l2-1 shop/web"}},
		{name: "somebody deletes it", want: map[types.NamespacedName]agent.Presence{web: {}}, have: []apimetallb.ServiceL2Status{l2Of("l2-1 a web", func(o *apimetallb.ServiceL2Status) { o.DeletionTimestamp = &metav1.Time{} })},
			plan: []string{"create  shop/web", "delete l2-1 shop/web"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, s := range planL2("a", "owner-of-a", test.want, test.have) {
				got = append(got, fmt.Sprintf("%s %s %s", s.verb, s.object, s.service))
			}
			if diff := cmp.Diff(test.plan, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
