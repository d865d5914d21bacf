package controller

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

func TestAnnouncers(t *testing.T) {
	now := time.Now()
	agent := func(name string, since time.Duration, addresses ...string) v1alpha1.Agent {
		a := v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, x := range addresses {
			a.Status.Addresses = append(a.Status.Addresses, v1alpha1.Announcement{Address: x, Services: []string{"shop/web"}, Since: metav1.NewTime(now.Add(since))})
		}
		return a
	}
	node := func(name string, ready corev1.ConditionStatus) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	const x, y = "192.0.2.7", "fd00::7"
	up, down := corev1.ConditionTrue, corev1.ConditionUnknown
	for name, test := range map[string]struct {
		agents []v1alpha1.Agent
		nodes  []corev1.Node
		want   map[string]string
	}{
		"nobody":                          {want: map[string]string{x: ""}},
		"each address by itself":          {agents: []v1alpha1.Agent{agent("a", 0, x), agent("b", time.Minute, y)}, want: map[string]string{x: "a", y: "b"}},
		"who has it last":                 {agents: []v1alpha1.Agent{agent("a", 0, x), agent("b", time.Minute, x)}, want: map[string]string{x: "b"}},
		"the first by name":               {agents: []v1alpha1.Agent{agent("b", 0, x), agent("a", 0, x)}, want: map[string]string{x: "a"}},
		"not who is lost":                 {agents: []v1alpha1.Agent{agent("a", 0, x), agent("b", time.Minute, x)}, nodes: []corev1.Node{node("a", up), node("b", down)}, want: map[string]string{x: "a"}},
		"not who is no node any more":     {agents: []v1alpha1.Agent{agent("b", time.Minute, x), agent("a", 0, x)}, nodes: []corev1.Node{node("a", up)}, want: map[string]string{x: "a"}},
		"who is lost, if nobody else":     {agents: []v1alpha1.Agent{agent("b", 0, x)}, nodes: []corev1.Node{node("b", down)}, want: map[string]string{x: "b"}},
		"of those who are lost, the last": {agents: []v1alpha1.Agent{agent("b", 0, x), agent("a", time.Minute, x)}, nodes: []corev1.Node{node("a", down), node("b", down)}, want: map[string]string{x: "a"}},
	} {
		got := announcers(test.agents, test.nodes)
		for address, want := range test.want {
			if got[address].node != want {
				t.Errorf("%s: %s is at %q, want %q", name, address, got[address].node, want)
			}
		}
	}
}

// What a Service holds, by what is written on it and by who announces now.
func TestPublishedOf(t *testing.T) {
	provided := &config.Class{Backend: config.KubeVIP, Pools: []lb.Dialect{lb.KubeVIP}}
	announced := &config.Class{Backend: config.Announce, Pools: []lb.Dialect{lb.Native, lb.KubeVIP}}
	plain := &config.Class{Backend: config.Announce, Pools: []lb.Dialect{lb.Native}}
	type notes = map[string]string
	const listed, given, said = kubevip.AnnotationAddresses, kubevip.AnnotationGiven, native.AnnotationReason
	for name, test := range map[string]struct {
		class     *config.Class
		notes     notes
		spec      string
		label     bool
		status    string
		condition string
		want      string
	}{
		"new":                            {class: provided},
		"given":                          {class: provided, notes: notes{listed: "10.0.0.1,fd00::1", given: "10.0.0.1,fd00::1"}, spec: "10.0.0.1", label: true, want: "10.0.0.1, fd00::1"},
		"given, for DHCP":                {class: provided, notes: notes{listed: "0.0.0.0", given: "0.0.0.0"}, spec: "0.0.0.0", label: true, status: "10.0.0.77"},
		"given, and asks for another":    {class: provided, notes: notes{listed: "10.0.0.9", given: "10.0.0.1"}, spec: "10.0.0.1", label: true, status: "10.0.0.9", want: "10.0.0.1"},
		"given, and all was deleted":     {class: provided, notes: notes{given: "10.0.0.1"}, label: true, want: "10.0.0.1"},
		"of kube-vip's cloud provider":   {class: provided, notes: notes{listed: "10.0.0.1"}, spec: "10.0.0.1", label: true, want: "10.0.0.1"},
		"asks":                           {class: provided, notes: notes{listed: "10.0.0.9"}},
		"asks, and kube-vip announces":   {class: provided, notes: notes{listed: "10.0.0.9,10.0.0.8"}, status: "10.0.0.9", want: "10.0.0.9"},
		"asks, refused":                  {class: provided, notes: notes{listed: "10.0.0.9", said: "AddressInUse: By another."}, label: true, status: "10.0.0.9"},
		"asks, with a warning":           {class: provided, notes: notes{listed: "10.0.0.9", said: "OutsidePools: No pool has that."}, label: true, want: "10.0.0.9"},
		"was announced by Fairlead":      {class: provided, status: "10.0.0.3", condition: "The Service has 10.0.0.3.", want: "10.0.0.3"},
		"was given, then announced":      {class: provided, notes: notes{listed: "10.0.0.1", given: "10.0.0.1"}, spec: "10.0.0.1", status: "10.0.0.3", condition: "The Service has 10.0.0.3.", want: "10.0.0.3"},
		"announced":                      {class: announced, status: "10.0.0.3", condition: "The Service has 10.0.0.3.", want: "10.0.0.3"},
		"announced, was given":           {class: announced, notes: notes{listed: "10.0.0.1", given: "10.0.0.1"}, spec: "10.0.0.1"},
		"announced, was given another":   {class: announced, notes: notes{listed: "10.0.0.1", given: "10.0.0.1"}, spec: "10.0.0.1", status: "10.0.0.3", want: "10.0.0.3"},
		"announced, asks":                {class: announced, notes: notes{listed: "10.0.0.9"}},
		"announced, emptied by somebody": {class: announced, notes: notes{listed: "10.0.0.1", given: "10.0.0.1"}, spec: "10.0.0.1", condition: "The Service has 10.0.0.3."},
		"not in kube-vip's words":        {class: plain, notes: notes{listed: "10.0.0.1", given: "10.0.0.1"}, spec: "10.0.0.1"},
	} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: test.notes}}
		s.Spec.LoadBalancerIP = test.spec
		if test.label {
			s.Labels = map[string]string{kubevip.Label: kubevip.LabelValue}
		}
		if test.status != "" {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: test.status}}
		}
		if test.condition != "" {
			s.Status.Conditions = []metav1.Condition{{Type: ConditionReady, Reason: string(lb.Ready), Message: test.condition}}
		}
		if got := addressList(publishedOf(s, test.class)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Who was given an address for kube-vip, and has none yet where Fairlead announces,
// asks for it; only in kube-vip's place also outside of pools.
func TestInherits(t *testing.T) {
	announced := &config.Class{Backend: config.Announce, Pools: []lb.Dialect{lb.Native, lb.KubeVIP}}
	theirs := &config.Class{Backend: config.Announce, Pools: []lb.Dialect{lb.KubeVIP}}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kubevip.AnnotationAddresses: "10.0.0.1", kubevip.AnnotationGiven: "10.0.0.1"}}}
	s.Spec.LoadBalancerIP = "10.0.0.1"
	m := &kubevipMap{config: kubevip.Parse(nil)}
	for class, anywhere := range map[*config.Class]bool{announced: false, theirs: true} {
		r, _ := m.requestOf(s, class, nil)
		if got := addressList(r.Addresses); got != "10.0.0.1" || r.Anywhere != anywhere {
			t.Errorf("%v: asks for %q, anywhere: %v", class.Pools, got, r.Anywhere)
		}
	}
	m.config = kubevip.Parse(&corev1.ConfigMap{Data: map[string]string{kubevip.KeyOutside: "refuse"}})
	if r, _ := m.requestOf(s, theirs, nil); r.Anywhere {
		t.Error("asks for an address outside of the pools")
	}
	s.Status.Conditions = []metav1.Condition{{Type: ConditionReady, Reason: string(lb.NoPool)}}
	if r, _ := m.requestOf(s, theirs, nil); len(r.Addresses) > 0 {
		t.Errorf("asks for %v, which it cannot have", r.Addresses)
	}
}

// A Service is kube-vip's by its label, its annotations or its pool.
func TestOfKubeVIP(t *testing.T) {
	for want, all := range map[bool][]metav1.ObjectMeta{
		true: {
			{Labels: map[string]string{"implementation": "kube-vip"}},
			{Annotations: map[string]string{"kube-vip.io/serviceInterface": "eth1"}},
			{Annotations: map[string]string{native.AnnotationAllocatedFrom: "kube-vip/cidr-global"}},
			{Annotations: map[string]string{native.AnnotationAllocatedFrom: "edge,kube-vip/cidr-global"}},
		},
		false: {
			{},
			{Labels: map[string]string{"implementation": "other"}},
			{Annotations: map[string]string{kubevip.AnnotationHost: "worker-1"}}, // written by us
			{Annotations: map[string]string{native.AnnotationAllocatedFrom: "edge"}},
		},
	} {
		for _, o := range all {
			if got := ofKubeVIP(&corev1.Service{ObjectMeta: o}); got != want {
				t.Errorf("%v: %v", o, got)
			}
		}
	}
}

// The reason on a Service is that of its condition, else that of its annotation,
// in whatever words somebody left it.
func FuzzReasonOn(f *testing.F) {
	f.Add("PoolExhausted: Full.", "")
	f.Add("", "Full.")
	f.Add("nothing", "")
	f.Fuzz(func(t *testing.T, annotation, condition string) {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{native.AnnotationReason: annotation}}}
		if condition != "" {
			s.Status.Conditions = []metav1.Condition{{Type: ConditionReady, Reason: "NoPool", Message: condition}}
		}
		r, known := reasonOn(s)
		switch {
		case condition != "" && (!known || r.Code != lb.NoPool || r.Text != condition):
			t.Errorf("%v of condition %q", r, condition)
		case condition == "" && known != strings.Contains(annotation, ": "):
			t.Errorf("%v of annotation %q", r, annotation)
		case condition == "" && known && r.String() != annotation:
			t.Errorf("%v of annotation %q", r, annotation)
		}
	})
}

// Which pools are refused is told once on the ConfigMap, and again if it is so
// again; pools of other kinds are told themselves.
func TestClashesAreToldOnce(t *testing.T) {
	key := types.NamespacedName{Namespace: "kube-system", Name: "kubevip"}
	m := &kubevipMap{key: key, uid: "one", events: newEvents(nil, slog.New(slog.DiscardHandler), func() bool { return false })}
	clash := func(d lb.Dialect, name, with string) ipam.PoolUsage {
		return ipam.PoolUsage{Key: lb.PoolKey{Dialect: d, Name: name}, Reason: lb.PoolOverlap.With(name, "192.0.2.1", with)}
	}
	told := func() (out []string) {
		for w, ok := m.events.next(); ok; w, ok = m.events.next() {
			out = append(out, w.about.Kind+" "+string(w.about.UID)+" "+w.event().Reason+" "+w.reason.Gist())
		}
		return out
	}
	a, b := clash(lb.KubeVIP, "cidr-a", "edge"), clash(lb.KubeVIP, "cidr-b", "edge")
	fine := ipam.PoolUsage{Key: lb.PoolKey{Dialect: lb.KubeVIP, Name: "cidr-c"}, Reason: lb.PoolReady.With()}
	for _, step := range []struct {
		name  string
		uid   types.UID
		usage []ipam.PoolUsage
		want  int
	}{
		{"one of several", "one", []ipam.PoolUsage{fine, a, clash(lb.Native, "lab", "edge"), clash(lb.MetalLB, "lab", "edge")}, 1},
		{"the same", "one", []ipam.PoolUsage{a, fine}, 0},
		{"one more", "one", []ipam.PoolUsage{a, b}, 1},
		{"none", "one", []ipam.PoolUsage{fine}, 0},
		{"again", "one", []ipam.PoolUsage{b}, 1},
		{"it is gone", "", []ipam.PoolUsage{a}, 0},
	} {
		m.uid = step.uid
		m.tellClashes(step.usage)
		got := told()
		if len(got) != step.want {
			t.Errorf("%s: told %q", step.name, got)
		}
		for _, text := range got {
			if !strings.HasPrefix(text, "ConfigMap one PoolOverlap ") {
				t.Errorf("%s: %s", step.name, text)
			}
		}
	}
	(*kubevipMap)(nil).tellClashes([]ipam.PoolUsage{a}) // no class uses it
}
