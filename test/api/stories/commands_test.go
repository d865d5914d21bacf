package stories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/test/kit/cloud"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/script"
)

// storyKey is where a script has its story.
type storyKey struct{}

// story is one script at work.
type story struct {
	rig  *rig.Rig
	t    *testing.T
	stop func()

	cloud        *cloud.Cloud // of stories that have one
	metrics      string       // address
	environment  []string     // of controllers, unless the story says otherwise
	writes       writes
	kindsChanged bool // by the story
}

// metric looks for a line in what the controller measures.
func (s *story) metric(args []string) error {
	re, err := regexp.Compile("(?m)" + args[0])
	if err != nil {
		return err
	}
	resp, err := http.Get("http://" + s.metrics + "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if !re.Match(text) {
		return fmt.Errorf("it is not in:\n%s", text)
	}
	return nil
}

// commands are those of the package comment.
func commands(kube string) map[string]script.Command {
	of := func(ts *testscript.TestScript) *story { return ts.Value(storyKey{}).(*story) }
	run := func(ts *testscript.TestScript, neg bool, args ...string) {
		err := ts.Exec(kube, append([]string{"kubectl"}, args...)...)
		if err != nil && !neg {
			ts.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
		}
		if err == nil && neg {
			ts.Fatalf("kubectl %s succeeded", strings.Join(args, " "))
		}
	}
	// eventually adapts a check of the world to a command that waits for it.
	eventually := func(usage string, least int, check func(*story, []string) error) script.Command {
		return func(ts *testscript.TestScript, neg bool, args []string) {
			if len(args) < least || neg {
				ts.Fatalf("usage: %s", usage)
			}
			rig.Eventually(of(ts).t, strings.Join(args, " "), func() error { return check(of(ts), args) })
		}
	}
	return map[string]script.Command{
		"kubectl": func(ts *testscript.TestScript, neg bool, args []string) { run(ts, neg, args...) },
		"apply": func(ts *testscript.TestScript, neg bool, args []string) {
			line := []string{"apply"}
			for _, file := range args {
				line = append(line, "-f", file)
			}
			run(ts, neg, line...)
		},
		"service":   eventually("service NAME CODE [ADDRESS...]", 2, (*story).service),
		"says":      eventually("says NAME REGEXP", 2, (*story).says),
		"aged":      eventually("aged NAME", 1, (*story).aged),
		"told":      eventually("told NAME CODE [REGEXP]", 2, (*story).told),
		"pool":      eventually("pool NAME CODE", 2, (*story).pool),
		"counts":    eventually("counts POOL NUMBER...", 3, (*story).counts),
		"metric":    eventually("metric REGEXP", 1, (*story).metric),
		"state":     eventually("state RESULT [REGEXP]", 1, (*story).state),
		"annotated": eventually("annotated NAME KEY [VALUE]", 2, (*story).annotated),
		"metallb": func(ts *testscript.TestScript, _ bool, args []string) {
			if err := of(ts).metallb(args); err != nil {
				ts.Fatalf("%v", err)
			}
		},
		"untouched": eventually("untouched NAME", 1, (*story).untouched),
		"controller": func(ts *testscript.TestScript, _ bool, args []string) {
			switch s := of(ts); {
			case slices.Equal(args, []string{"stop"}):
				s.stop()
			case len(args) > 0 && args[0] == "start":
				for i := range args {
					if i > 0 && args[i-1] == "--config" {
						args[i] = ts.MkAbs(args[i])
					}
				}
				ts.Check(s.start(args[1:]))
			default:
				ts.Fatalf("usage: controller start [FLAG...] [VARIABLE=VALUE...] | controller stop")
			}
		},
		"cloud": func(ts *testscript.TestScript, _ bool, args []string) {
			if s := of(ts); len(args) > 0 && args[0] == "has" {
				rig.Eventually(s.t, strings.Join(args, " "), func() error { return s.cloudHas(args[1:]) })
			} else {
				ts.Check(s.cloudDo(args))
			}
		},
		"unannounced": eventually("unannounced NAME CODE [REGEXP]", 2, (*story).unannounced),
		"announced":   eventually("announced NAME", 1, (*story).announced),
		"agent":       eventually("agent NAME [STATUS REASON ANNOUNCED LISTED]", 1, (*story).agent),
		"reported":    eventually("reported NAME CODE [REGEXP]", 2, (*story).reported),
		"given":       eventually("given NAME ADDRESSES [INTERFACE]", 2, (*story).given),
		"honoured":    eventually("honoured NAME ADDRESSES", 2, (*story).honoured),
		"refused":     eventually("refused NAME CODE [ADDRESSES]", 2, (*story).refused),
		"times":       eventually("times NAME CODE NUMBER", 3, (*story).times),
		"writes":      eventually("writes NAME NUMBER", 2, (*story).written),
		"gone":        eventually("gone NAME", 1, (*story).gone),
	}
}

func (s *story) get(name string) (*corev1.Service, *metav1.Condition, error) {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		return nil, nil, errors.New("a Service is named namespace/name")
	}
	var svc corev1.Service
	if err := s.rig.Client.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: name}, &svc); err != nil {
		return nil, nil, err
	}
	if c := reasonOf(&svc); c != nil {
		return &svc, c, nil
	}
	return &svc, meta.FindStatusCondition(svc.Status.Conditions, kubeapi.ConditionReady), nil
}

func (s *story) service(args []string) error {
	svc, c, err := s.get(args[0])
	switch {
	case err != nil:
		return err
	case c == nil:
		return errors.New("no reason yet")
	case c.Reason != args[1]:
		return fmt.Errorf("reason is %s: %s", c.Reason, c.Message)
	}
	var got []string
	for _, in := range svc.Status.LoadBalancer.Ingress {
		got = append(got, in.IP+in.Hostname)
	}
	if !slices.Equal(got, args[2:]) {
		return fmt.Errorf("addresses are %v (%s: %s)", got, c.Reason, c.Message)
	}
	return nil
}

func (s *story) says(args []string) error {
	re, err := regexp.Compile(args[1])
	if err != nil {
		return err
	}
	_, c, err := s.object(args[0])
	if err != nil {
		return err
	}
	if c == nil || !re.MatchString(c.Message) {
		return fmt.Errorf("condition is %v", c)
	}
	return nil
}

// aged waits for the clock: creation times have whole seconds, and of two
// objects of the same second nobody can tell which is older.
func (s *story) aged(args []string) error {
	o, _, err := s.object(args[0])
	if err != nil {
		return err
	}
	if time.Now().Unix() <= o.GetCreationTimestamp().Unix() {
		return errors.New("still the same second")
	}
	return nil
}

// object reads what is named: see the package comment.
func (s *story) object(name string) (metav1.Object, *metav1.Condition, error) {
	if kind, name, ok := strings.Cut(name, "/"); ok {
		if _, is := metallbKinds[kind]; is {
			return s.readMetalLB(kind, name)
		}
	}
	switch {
	case name == "configmap/kubevip":
		cm, err := s.rig.Kube.CoreV1().ConfigMaps("kube-system").Get(context.Background(), "kubevip", metav1.GetOptions{})
		return cm, nil, err
	case strings.Contains(name, "/"):
		return s.get(name)
	}
	return s.readPool(name)
}

// eventsOf returns the events about an object.
func (s *story) eventsOf(name string) ([]corev1.Event, error) {
	o, _, err := s.object(name)
	if err != nil {
		return nil, err
	}
	// Those about pools are where kubectl describe looks for them.
	list, err := s.rig.Kube.CoreV1().Events(cmp.Or(o.GetNamespace(), metav1.NamespaceDefault)).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return e.InvolvedObject.UID != o.GetUID() }), nil
}

func (s *story) told(args []string) error {
	events, err := s.eventsOf(args[0])
	if err != nil {
		return err
	}
	return oneLike(events, args[1], args[2:])
}

// oneLike looks for an event with a reason whose message is like the expression.
func oneLike(events []corev1.Event, reason string, expression []string) error {
	re, err := regexp.Compile(strings.Join(expression, " "))
	if err != nil {
		return err
	}
	var got []string
	for _, e := range events {
		if e.Reason == reason && re.MatchString(e.Message) {
			return nil
		}
		got = append(got, e.Reason+": "+e.Message)
	}
	return fmt.Errorf("events are %q", got)
}

func (s *story) times(args []string) error {
	events, err := s.eventsOf(args[0])
	if err != nil {
		return err
	}
	var got []string
	for _, e := range events {
		if e.Reason == args[1] {
			got = append(got, e.Message)
		}
	}
	if fmt.Sprint(len(got)) != args[2] {
		return fmt.Errorf("%d: %q", len(got), got)
	}
	return nil
}

func (s *story) readPool(name string) (*v1alpha1.Pool, *metav1.Condition, error) {
	var p v1alpha1.Pool
	if err := s.rig.Client.Get(context.Background(), types.NamespacedName{Name: name}, &p); err != nil {
		return nil, nil, err
	}
	return &p, meta.FindStatusCondition(p.Status.Conditions, "Ready"), nil
}

func (s *story) pool(args []string) error {
	_, c, err := s.object(args[0])
	if err != nil {
		return err
	}
	if c == nil || c.Reason != args[1] {
		return fmt.Errorf("condition is %v", c)
	}
	return nil
}

func (s *story) counts(args []string) error {
	if name, ok := strings.CutPrefix(args[0], "ipaddresspool/"); ok {
		return s.countsMetalLB(name, args[1:])
	}
	p, _, err := s.readPool(args[0])
	if err != nil {
		return err
	}
	if got := []string{p.Status.Total, p.Status.Used, p.Status.Free}; !slices.Equal(got, args[1:]) {
		return fmt.Errorf("total, used, free are %q", got)
	}
	return nil
}

func (s *story) untouched(args []string) error {
	svc, c, err := s.get(args[0])
	if err != nil {
		return err
	}
	_, annotated := svc.Annotations[native.AnnotationAllocatedFrom]
	_, theirs := svc.Annotations[metallb.AnnotationAllocatedFrom]
	if n := len(svc.Status.LoadBalancer.Ingress); annotated || theirs || c != nil || n > 0 || len(svc.Finalizers) > 0 {
		return fmt.Errorf("annotations %v, condition %v, %d addresses, finalizers %v", svc.Annotations, c, n, svc.Finalizers)
	}
	return unprovided(svc)
}
