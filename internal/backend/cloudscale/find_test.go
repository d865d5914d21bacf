package cloudscale

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

func TestFind(t *testing.T) {
	own := cloudscale.LoadBalancer{UUID: "own", Name: "k8s-service-deadbeef"}
	stray := cloudscale.LoadBalancer{UUID: "stray", Name: "stray"}
	tagged := func(o cloudscale.LoadBalancer, uid string) cloudscale.LoadBalancer {
		o.Tags = cloudscale.Tags{tagUID: uid}
		return o
	}
	of := func(o cloudscale.LoadBalancer, cluster, uid string) cloudscale.LoadBalancer {
		o.Tags = cloudscale.Tags{tagCluster: cluster, tagUID: uid}
		return o
	}
	named := annotated(compat.AnnotationName, "stray")
	twin := own
	twin.UUID = "twin"
	deleting := func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: now} }
	young := func(s *corev1.Service) { s.CreationTimestamp = metav1.Time{Time: now.Add(time.Hour)} }
	uuid := func(id string) edit { return annotated(compat.AnnotationUUID, id) }
	for _, test := range []struct {
		name   string
		edits  []edit
		all    []cloudscale.LoadBalancer
		others []*corev1.Service
		gone   bool
		want   string
		reason lb.Code
	}{
		{name: "none", all: []cloudscale.LoadBalancer{stray}},
		{name: "by name", all: []cloudscale.LoadBalancer{stray, own}, want: "own"},
		{name: "by UUID, renamed", edits: []edit{uuid("stray")}, all: []cloudscale.LoadBalancer{stray}, want: "stray"},
		{name: "by both", edits: []edit{uuid("own")}, all: []cloudscale.LoadBalancer{stray, own}, want: "own"},
		{name: "UUID that is gone, by name", edits: []edit{uuid("lost")}, all: []cloudscale.LoadBalancer{own}, want: "own"},
		{name: "by another name", edits: []edit{annotated(compat.AnnotationName, "stray")}, all: []cloudscale.LoadBalancer{stray, own}, want: "stray"},
		{name: "an empty name is nobody's", edits: []edit{annotated(compat.AnnotationName, "")}, all: []cloudscale.LoadBalancer{{UUID: "x"}}},
		{name: "one by UUID, another by name", edits: []edit{uuid("stray")}, all: []cloudscale.LoadBalancer{stray, own}, reason: LoadBalancerAmbiguous},
		{name: "two of the name", all: []cloudscale.LoadBalancer{own, twin}, reason: LoadBalancerAmbiguous},
		{name: "two of the name, one written down", edits: []edit{uuid("own")}, all: []cloudscale.LoadBalancer{own, twin}, reason: LoadBalancerAmbiguous},
		{name: "two of the name, all shall go", all: []cloudscale.LoadBalancer{own, twin}, gone: true, want: "own twin"},
		{name: "two of a name that may be anybody's", edits: []edit{annotated(compat.AnnotationName, "stray")},
			all: []cloudscale.LoadBalancer{stray, {UUID: "y", Name: "stray"}}, gone: true, reason: LoadBalancerAmbiguous},
		{name: "two of such a name, one is surely ours", edits: []edit{annotated(compat.AnnotationName, "stray")},
			all: []cloudscale.LoadBalancer{tagged(stray, "deadbeef"), {UUID: "y", Name: "stray"}}, gone: true, want: "stray"},

		{name: "copied with its annotations", edits: []edit{uuid("stray")}, all: []cloudscale.LoadBalancer{tagged(stray, "cafe")}, others: []*corev1.Service{other("first", "cafe")}, reason: LoadBalancerTaken},
		{name: "copied and deleted", edits: []edit{uuid("stray")}, all: []cloudscale.LoadBalancer{tagged(stray, "cafe")}, others: []*corev1.Service{other("first", "cafe")}, gone: true},
		{name: "copied, without tags", edits: []edit{uuid("x")}, all: []cloudscale.LoadBalancer{{UUID: "x", Name: "k8s-service-cafe"}}, others: []*corev1.Service{other("first", "cafe")}, reason: LoadBalancerTaken},
		{name: "copied, with a name", edits: []edit{uuid("stray"), young}, all: []cloudscale.LoadBalancer{stray}, others: []*corev1.Service{other("first", "cafe", uuid("stray"))}, reason: LoadBalancerTaken},
		{name: "the one that was copied", edits: []edit{uuid("stray")}, all: []cloudscale.LoadBalancer{stray}, others: []*corev1.Service{other("second", "cafe", uuid("stray"), young)}, want: "stray"},
		{name: "its first owner is gone", edits: []edit{uuid("stray")}, all: []cloudscale.LoadBalancer{tagged(stray, "cafe")}, want: "stray"},
		{name: "copied, and has its own", edits: []edit{uuid("stray")}, all: []cloudscale.LoadBalancer{tagged(stray, "cafe"), own}, others: []*corev1.Service{other("first", "cafe")}, want: "own"},

		{name: "another cluster's, by name", edits: []edit{named}, all: []cloudscale.LoadBalancer{of(stray, "theirs", "cafe")}, reason: LoadBalancerTaken},
		{name: "another cluster's, by UUID", edits: []edit{uuid("stray")}, all: []cloudscale.LoadBalancer{of(stray, "theirs", "cafe")}, reason: LoadBalancerTaken},
		{name: "another cluster's, by UUID, deleted", edits: []edit{uuid("stray")}, all: []cloudscale.LoadBalancer{of(stray, "theirs", "cafe")}, gone: true},
		{name: "another cluster's, whose Service has the same UID", all: []cloudscale.LoadBalancer{of(own, "theirs", "deadbeef")}, reason: LoadBalancerTaken},
		{name: "another cluster's, which an administrator gives away", edits: []edit{uuid("stray")}, all: []cloudscale.LoadBalancer{of(stray, "former", "cafe")}, want: "stray"},
		{name: "this cluster's, of a Service that is gone", edits: []edit{named}, all: []cloudscale.LoadBalancer{of(stray, "prod", "cafe")}, want: "stray"},
		{name: "this cluster's, from before it had a name", all: []cloudscale.LoadBalancer{of(own, "5ce1", "deadbeef")}, want: "own"},
		{name: "of a Service that is being deleted", edits: []edit{uuid("stray")}, all: []cloudscale.LoadBalancer{tagged(stray, "cafe")}, others: []*corev1.Service{other("first", "cafe", deleting)}, reason: LoadBalancerTaken},
		{name: "of a Service that became another type", edits: []edit{named}, all: []cloudscale.LoadBalancer{tagged(stray, "cafe")}, others: []*corev1.Service{other("first", "cafe", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })}, reason: LoadBalancerTaken},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := service(test.edits...)
			w := wantOf(s, nil, test.others)
			w.Gone = test.gone
			b := &Backend{cluster: "prod", clusterUID: "5ce1", adoptFrom: []string{"former"}}
			f := b.find(w, test.all)
			var ids []string
			for _, o := range f.own {
				ids = append(ids, o.UUID)
			}
			code := lb.Code("")
			if f.reason != nil {
				code = f.reason.Code
			}
			if got := strings.Join(ids, " "); got != test.want || code != test.reason {
				t.Errorf("found %q %s, want %q %s", got, code, test.want, test.reason)
			}
		})
	}
}

// A Service is read by newer rules if its load balancer is new, or if it asks
// for them.
func TestVersionOfRules(t *testing.T) {
	asked := annotated(compat.AnnotationConfigVersion, "2")
	old := annotated(compat.AnnotationConfigVersion, "1")
	ours := &cloudscale.LoadBalancer{Tags: cloudscale.Tags{tagVersion: "2"}}
	for _, test := range []struct {
		name string
		edit edit
		own  *cloudscale.LoadBalancer
		want compat.Version
	}{
		{"new", func(*corev1.Service) {}, nil, 2},
		{"new, by old rules", old, nil, 1},
		{"was there before", func(*corev1.Service) {}, &cloudscale.LoadBalancer{}, 1},
		{"was there before, and asks", asked, &cloudscale.LoadBalancer{}, 2},
		{"was made by us, which is not written down yet", func(*corev1.Service) {}, ours, 2},
		{"was taken over", func(*corev1.Service) {}, &cloudscale.LoadBalancer{Tags: cloudscale.Tags{tagVersion: "1"}}, 1},
		{"goes back", old, ours, 1},
	} {
		if got := version(kubeapi.Service(service(test.edit)), test.own); got != test.want {
			t.Errorf("%s: %d", test.name, got)
		}
	}
}
