package kubedc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/script"
)

func newClient(t *testing.T, r *rig.Rig) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, api.AddToScheme, kubeovn.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(r.API.RESTConfig(), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func itemsOf(l client.ObjectList) (out []client.Object) {
	items, err := meta.ExtractList(l)
	if err != nil {
		panic(err) // every list has items
	}
	for _, item := range items {
		out = append(out, item.(client.Object))
	}
	return out
}

// commands are those of the package comment.
func commands(kube string) map[string]script.Command {
	of := func(ts *testscript.TestScript) *story { return ts.Value(storyKey{}).(*story) }
	run := func(ts *testscript.TestScript, neg bool, args ...string) {
		if err := ts.Exec(kube, append([]string{"kubectl"}, args...)...); (err != nil) != neg {
			ts.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
		}
	}
	eventually := func(usage string, least int, check func(*story, []string) error) script.Command {
		return func(ts *testscript.TestScript, neg bool, args []string) {
			if len(args) < least || neg {
				ts.Fatalf("usage: %s", usage)
			}
			rig.Eventually(of(ts).t, strings.Join(args, " "), func() error { return check(of(ts), args) })
		}
	}
	now := func(do func(*story, []string) error) script.Command {
		return func(ts *testscript.TestScript, _ bool, args []string) {
			for i := range args {
				if i > 0 && args[i-1] == "--config" {
					args[i] = ts.MkAbs(args[i])
				}
			}
			ts.Check(do(of(ts), args))
		}
	}
	return map[string]script.Command{
		"kubectl": func(ts *testscript.TestScript, neg bool, args []string) { run(ts, neg, args...) },
		"apply": func(ts *testscript.TestScript, neg bool, args []string) {
			for _, file := range args {
				run(ts, neg, "apply", "-f", file)
			}
		},
		"service":    eventually("service NAME CODE [ADDRESS...]", 2, (*story).service),
		"untouched":  eventually("untouched NAME", 1, (*story).untouched),
		"says":       eventually("says NAME REGEXP", 2, (*story).says),
		"told":       eventually("told NAME CODE [REGEXP]", 2, (*story).told),
		"times":      eventually("times NAME CODE NUMBER", 3, (*story).times),
		"aged":       eventually("aged NAME", 1, (*story).aged),
		"has":        eventually("has KIND PATTERN [REGEXP...]", 2, (*story).has),
		"none":       eventually("none KIND PATTERN", 2, (*story).none),
		"rows":       eventually("rows NUMBER [REGEXP...]", 1, (*story).rows),
		"rules":      eventually("rules NUMBER [REGEXP...]", 1, (*story).rules),
		"attached":   eventually("attached router|switch NAME [ROW...]", 2, (*story).attached),
		"metric":     eventually("metric REGEXP", 1, (*story).metric),
		"status":     now((*story).status),
		"nbctl":      now(func(s *story, args []string) error { s.nb.Ctl(args...); return nil }),
		"mark":       now((*story).mark),
		"unwritten":  now((*story).unwritten),
		"writes":     eventually("writes NUMBER PART", 2, (*story).written),
		"controller": now((*story).controller),
		"kube-ovn":   now((*story).kubeOVN),
		"database":   now((*story).database),
		"northd":     now((*story).northdIs),
		"kinds":      now((*story).kinds),
	}
}

func (s *story) get(name string) (*corev1.Service, *metav1.Condition, error) {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		return nil, nil, errors.New("a Service is named namespace/name")
	}
	var svc corev1.Service
	err := s.client.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: name}, &svc)
	return &svc, meta.FindStatusCondition(svc.Status.Conditions, kubeapi.ConditionReady), err
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
		if got = append(got, in.IP); in.IPMode == nil || *in.IPMode != corev1.LoadBalancerIPModeProxy {
			return fmt.Errorf("ipMode is %v", in.IPMode)
		}
	}
	same := func(got, pattern string) bool { ok, _ := path.Match(pattern, got); return ok }
	if !slices.EqualFunc(got, args[2:], same) {
		return fmt.Errorf("addresses are %v (%s: %s)", got, c.Reason, c.Message)
	}
	return nil
}

func (s *story) untouched(args []string) error {
	svc, c, err := s.get(args[0])
	for key := range svc.Annotations {
		if strings.HasPrefix(key, "fairlead.io/") {
			return fmt.Errorf("annotation %s", key)
		}
	}
	if err == nil && (c != nil || len(svc.Status.LoadBalancer.Ingress) > 0 || len(svc.Finalizers) > 0) {
		return fmt.Errorf("%+v", svc)
	}
	return err
}

func (s *story) says(args []string) error {
	re, err := regexp.Compile(args[1])
	if err != nil {
		return err
	}
	_, c, err := s.get(args[0])
	if err == nil && (c == nil || !re.MatchString(c.Message)) {
		return fmt.Errorf("condition is %v", c)
	}
	return err
}

// aged waits for the clock: creation times have whole seconds, and of two objects of the
// same second nobody can tell which is older.
func (s *story) aged(args []string) error {
	o, _, err := s.get(args[0])
	if err == nil && time.Now().Unix() <= o.CreationTimestamp.Unix() {
		return errors.New("still the same second")
	}
	return err
}

func (s *story) eventsOf(name, reason string) ([]string, error) {
	svc, _, err := s.get(name)
	if err != nil {
		return nil, err
	}
	namespace, _, _ := strings.Cut(name, "/")
	list, err := s.rig.Kube.CoreV1().Events(namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range list.Items {
		if e.InvolvedObject.UID == svc.UID && (reason == "" || e.Reason == reason) {
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	return out, nil
}

func (s *story) told(args []string) error {
	re, err := regexp.Compile(strings.Join(args[2:], " "))
	if err != nil {
		return err
	}
	events, err := s.eventsOf(args[0], args[1])
	if err != nil || slices.ContainsFunc(events, re.MatchString) {
		return err
	}
	all, err := s.eventsOf(args[0], "")
	return errors.Join(err, fmt.Errorf("events are %q", all))
}

func (s *story) times(args []string) error {
	events, err := s.eventsOf(args[0], args[1])
	if err == nil && fmt.Sprint(len(events)) != args[2] {
		return fmt.Errorf("%d: %q", len(events), events)
	}
	return err
}

// find returns the objects of a kind whose name is like a pattern.
func (s *story) find(kind, pattern string) ([]client.Object, error) {
	list, known := map[string]client.ObjectList{
		"eip": &api.EIpList{}, "fip": &api.FIpList{}, "project": &api.ProjectList{}, "ovn-eip": &kubeovn.OvnEipList{}, "subnet": &kubeovn.SubnetList{}, "vpc": &kubeovn.VpcList{},
		"service": &corev1.ServiceList{}, "endpointslice": &discoveryv1.EndpointSliceList{},
	}[kind]
	if !known {
		return nil, fmt.Errorf("kind %s is not known", kind)
	}
	if err := s.client.List(context.Background(), list); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(itemsOf(list), func(o client.Object) bool { return !named(pattern, o) }), nil
}

func (s *story) has(args []string) error {
	found, err := s.find(args[0], args[1])
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("there are %d", len(found))
	}
	text, err := json.Marshal(found[0])
	if err != nil {
		return err
	}
	return like(string(text), args[2:])
}

// status writes the status of an object, as its controller would.
func (s *story) status(args []string) error {
	found, err := s.find(args[0], args[1])
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%d objects, %w", len(found), err)
	}
	return s.client.Status().Patch(context.Background(), found[0], client.RawPatch(types.MergePatchType, []byte(`{"status":`+args[2]+`}`)))
}

func (s *story) none(args []string) error {
	found, err := s.find(args[0], args[1])
	if err == nil && len(found) > 0 {
		text, _ := json.Marshal(found)
		return fmt.Errorf("there are %d: %s", len(found), text)
	}
	return err
}

func like(text string, expressions []string) error {
	for _, e := range expressions {
		re, err := regexp.Compile(e)
		if err != nil {
			return err
		}
		if !re.MatchString(text) {
			return fmt.Errorf("%q is not in %s", e, text)
		}
	}
	return nil
}

// rows are all load balancers of the database, and rules all ACLs, one to a line.
func (s *story) rows(args []string) error {
	return s.table("Load_Balancer", "name,protocol,vips,options,external_ids", args)
}

func (s *story) rules(args []string) error {
	return s.table("ACL", "direction,priority,action,match", args)
}

func (s *story) table(name, columns string, args []string) error {
	text := strings.TrimSpace(s.nb.Ctl("--no-headings", "--format=csv", "--data=bare", "--columns="+columns, "list", name))
	text = strings.ReplaceAll(text, `"`, "") // around values with commas
	lines := strings.Split(text, "\n")
	if text == "" {
		lines = nil
	}
	if fmt.Sprint(len(lines)) != args[0] {
		return fmt.Errorf("there are %d:\n%s", len(lines), text)
	}
	for _, e := range args[1:] {
		if !slices.ContainsFunc(lines, func(line string) bool { return like(line, []string{e}) == nil }) {
			return fmt.Errorf("none is like %q:\n%s", e, text)
		}
	}
	return nil
}

// attached compares the load balancers of a router or switch.
func (s *story) attached(args []string) error {
	table := map[string]string{"router": "Logical_Router", "switch": "Logical_Switch"}[args[0]]
	ids := s.nb.Ctl("--bare", "--columns=load_balancer", "find", table, "name="+args[1])
	var got []string
	for line := range strings.Lines(s.nb.Ctl("--no-headings", "--format=csv", "--data=bare", "--columns=_uuid,name", "list", "Load_Balancer")) {
		if id, name, _ := strings.Cut(strings.TrimSpace(line), ","); id != "" && strings.Contains(ids, id) {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(args[2:])); !slices.Equal(got, want) {
		return fmt.Errorf("there are %q", got)
	}
	return nil
}

func (s *story) metric(args []string) error {
	resp, err := http.Get("http://" + s.metrics + "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return like(string(text), []string{"(?m)" + args[0]})
}

func (s *story) mark([]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marked = len(s.writes)
	return nil
}

// unwritten says that since the mark nothing was written but what is named.
func (s *story) unwritten(except []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.writes[s.marked:] {
		if !slices.ContainsFunc(except, func(e string) bool { return strings.Contains(w+"$", e) }) {
			return fmt.Errorf("written: %s", w)
		}
	}
	return nil
}

// written counts writes since the mark.
func (s *story) written(args []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := slices.DeleteFunc(slices.Clone(s.writes[s.marked:]), func(w string) bool { return !strings.Contains(w+"$", args[1]) })
	if fmt.Sprint(len(some)) != args[0] {
		return fmt.Errorf("there are %d: %q", len(some), some)
	}
	return nil
}

func (s *story) controller(args []string) error {
	switch {
	case slices.Equal(args, []string{"stop"}):
		s.stop()
		return nil
	case len(args) > 0 && args[0] == "start":
		return s.start(args[1:])
	}
	return errors.New("usage: controller start [FLAG...] | stop")
}

func (s *story) kubeOVN(args []string) error {
	switch strings.Join(args, " ") {
	case "full":
		s.ovn.Full.Store(true)
	case "free":
		s.ovn.Full.Store(false)
		s.ovn.Look()
	case "restart": // it deletes every load balancer that it does not know
		s.nb.Ctl("--all", "destroy", "Load_Balancer")
	default:
		return errors.New("usage: kube-ovn full|free|restart")
	}
	return nil
}

func (s *story) database(args []string) error {
	switch strings.Join(args, " ") {
	case "stop":
		s.nb.Kill()
	case "start":
		s.nb.Start()
	default:
		return errors.New("usage: database stop|start")
	}
	return nil
}

func (s *story) northdIs(args []string) error {
	if !slices.Equal(args, []string{"stop"}) {
		return errors.New("usage: northd stop")
	}
	s.northd.Kill()
	return nil
}

func (s *story) kinds(args []string) error {
	switch strings.Join(args, " ") {
	case "install":
		s.installKinds()
	case "remove":
		s.removeKinds()
	default:
		return errors.New("usage: kinds install|remove")
	}
	return nil
}
