package page

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
	"fairlead.io/internal/snapshot"
)

// at is when the snapshots of these tests are.
var at = time.Date(2026, 3, 4, 13, 52, 0, 0, time.UTC)

// cluster is a source that shows what a test says.
type cluster struct {
	seen chan seen
	runs chan struct{}
}

type seen struct {
	*snapshot.Snapshot
	snapshot.Contact
}

func (c *cluster) Run(ctx context.Context, tell func(*snapshot.Snapshot, snapshot.Contact)) {
	c.runs <- struct{}{}
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-c.seen:
			tell(s.Snapshot, s.Contact)
		}
	}
}

// of makes a snapshot of a cluster with two nodes, of which one announces the address of
// Service shop/web.
func of(t *testing.T, by string, services ...client.Object) *snapshot.Snapshot {
	t.Helper()
	all := append(services, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/29"}}},
		service("web", "192.0.2.7"))
	for _, name := range []string{"one", "two"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		a := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}}
		a.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}}
		if name == by {
			a.Status.Announced = 1
			a.Status.Addresses = []v1alpha1.Announcement{{Address: "192.0.2.7", Services: []string{"shop/web"}, Interface: "eth0", Protocol: "ARP", Since: metav1.NewTime(at)}}
		}
		all = append(all, n, a)
	}
	s, err := snapshot.Of(at, config.Default(), all...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func service(name, address string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{{Port: 80}}}}
	if address != "" {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	}
	return s
}

// serve serves a page on a loopback address.
func serve(t *testing.T) (*cluster, string) {
	t.Helper()
	c := &cluster{seen: make(chan seen), runs: make(chan struct{}, 10)}
	p := New("test", c)
	srv := httptest.NewUnstartedServer(nil)
	only, err := NewLoopback(p, srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	srv.Config.Handler = only
	srv.Start()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		p.Close()
	})
	return c, only.URL()
}

// reply is an answer. Its body ends with the test.
type reply struct {
	StatusCode int
	Header     http.Header
	Body       io.Reader
}

func get(t *testing.T, url string, change func(*http.Request)) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return reply{answer.StatusCode, answer.Header, answer.Body}
}

// Nobody gets anything without the token, or by another name than that of this machine.
func TestOnlyWithTokenAndHost(t *testing.T) {
	_, url := serve(t)
	root := url[:strings.LastIndex(strings.TrimSuffix(url, "/"), "/")]
	for _, path := range []string{"", "index.html", "app.js", "data/changes", "data/why?about=192.0.2.7", "nothing"} {
		for name, c := range map[string]struct {
			url    string
			change func(*http.Request)
		}{
			"no token":     {root + "/" + path, nil},
			"wrong token":  {root + "/" + strings.Repeat("A", 26) + "/" + path, nil},
			"foreign Host": {url + path, func(r *http.Request) { r.Host = "evil.example:" + r.URL.Port() }},
			"other port":   {url + path, func(r *http.Request) { r.Host = "127.0.0.1:1" }},
			"no port":      {url + path, func(r *http.Request) { r.Host = "127.0.0.1" }},
			"other site": {url + path, func(r *http.Request) {
				r.Header.Set("Sec-Fetch-Site", "cross-site")
				r.Header.Set("Sec-Fetch-Mode", "cors")
			}},
		} {
			if got := get(t, c.url, c.change); got.StatusCode != http.StatusForbidden {
				t.Errorf("%s, %q: status %d", name, path, got.StatusCode)
			}
		}
	}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if got := get(t, url, func(r *http.Request) { r.Host = host + ":" + r.URL.Port() }); got.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", host, got.StatusCode)
		}
	}
}

// What is served can be read only, and tells the browser to use nothing else.
func TestHeaders(t *testing.T) {
	_, url := serve(t)
	for _, path := range []string{"", "style.css", "app.js", "icon.svg", "data/why"} {
		h := get(t, url+path, nil).Header
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%q: policy %q lacks %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") || strings.Contains(csp, "*") {
			t.Errorf("%q: policy %q", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%q: headers %v", path, h)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", answer.StatusCode)
	}
}

// The files of the page name nothing outside, and no script makes HTML of a string.
func TestFilesAreSelfContained(t *testing.T) {
	entries, err := assets.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := assets.ReadFile("assets/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{"http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=", " onclick="} {
			if strings.Contains(text, bad) {
				t.Errorf("%s contains %s", e.Name(), bad)
			}
		}
	}
}

// stream reads messages.
type stream struct {
	t  *testing.T
	in *bufio.Scanner
}

func (s *stream) next() (m message) {
	s.t.Helper()
	for s.in.Scan() {
		if data, ok := strings.CutPrefix(s.in.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				s.t.Fatal(err)
			}
			return m
		}
	}
	s.t.Fatal("the stream has ended")
	return m
}

// keys are what a message sets, as "collection key".
func keys(m message) (out []string) {
	for _, name := range collections {
		if c := m.Changes[name]; c != nil && name != "head" {
			for key := range c.Set {
				out = append(out, name+" "+key)
			}
			for _, key := range c.Gone {
				out = append(out, name+" -"+key)
			}
		}
	}
	return out
}

// A viewer gets everything, then what changes.
func TestChanges(t *testing.T) {
	c, url := serve(t)
	answer := get(t, url+"data/changes", nil)
	if answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("headers %v", answer.Header)
	}
	s := &stream{t, bufio.NewScanner(answer.Body)}
	s.in.Buffer(nil, 1<<24)
	if m := s.next(); !m.First || len(keys(m)) != 0 || !strings.Contains(string(m.Changes["head"].Set["head"]), "Reading the cluster") {
		t.Errorf("at first %s", m.Changes["head"].Set["head"])
	}
	now := snapshot.Contact{At: at}
	c.seen <- seen{of(t, "one"), now}
	if diff := cmp.Diff([]string{"nodes one", "nodes two", "pools edge", "addresses 192.0.2.7", "problems controller "}, sorted(keys(s.next()))); diff != "" {
		t.Error(diff)
	}
	c.seen <- seen{of(t, "two"), now}
	m := s.next()
	if diff := cmp.Diff([]string{"nodes one", "nodes two", "addresses 192.0.2.7", "timeline 1"}, sorted(keys(m))); diff != "" {
		t.Error(diff)
	}
	if got := string(m.Changes["timeline"].Set["1"]); got != `{"id":"1","at":"2026-03-04T13:52:00Z","kind":"moved","address":"192.0.2.7","services":["shop/web"],"from":"one","to":"two"}` {
		t.Errorf("the move is %s", got)
	}
	// HTML of a tenant is a JSON string in which no browser sees a tag.
	evil := service("evil", "")
	evil.Annotations = map[string]string{"fairlead.io/addresses": "<script>alert(1)</script>"}
	c.seen <- seen{of(t, "two", evil), now}
	m = s.next()
	if got := string(m.Changes["services"].Set["shop/evil"]); !strings.Contains(got, `\u003cscript\u003e`) || strings.Contains(got, "<script>") {
		t.Errorf("the Service is %s", got)
	}
	c.seen <- seen{of(t, "two"), snapshot.Contact{At: at, Away: "The API server does not answer."}}
	m = s.next()
	if diff := cmp.Diff([]string{"services -shop/evil"}, keys(m)); diff != "" || !strings.Contains(string(m.Changes["head"].Set["head"]), "does not answer") {
		t.Errorf("%s %s", diff, m.Changes["head"].Set["head"])
	}
	// Why, from what is shown.
	why := get(t, url+"data/why?about=shop/web", nil)
	var chains []snapshot.Why
	if err := json.NewDecoder(why.Body).Decode(&chains); err != nil || len(chains) != 1 || chains[0].Service != "shop/web" || why.Header.Get("Content-Type") != "application/json" {
		t.Errorf("why: %v %v", chains, err)
	}
	if got := get(t, url+"data/why?about=web", nil).StatusCode; got != http.StatusBadRequest {
		t.Errorf("why of half a name: %d", got)
	}
}

func sorted(keys []string) []string {
	rank := map[string]int{}
	for i, name := range collections {
		rank[name] = i
	}
	for i := range keys {
		for j := i; j > 0; j-- {
			a, _, _ := strings.Cut(keys[j-1], " ")
			b, _, _ := strings.Cut(keys[j], " ")
			if rank[a] < rank[b] || rank[a] == rank[b] && keys[j-1] <= keys[j] {
				break
			}
			keys[j], keys[j-1] = keys[j-1], keys[j]
		}
	}
	return keys
}

// Two viewers cost one source, and each gets everything at first.
func TestViewersShareASource(t *testing.T) {
	c, url := serve(t)
	var all []*stream
	for range 3 {
		s := &stream{t, bufio.NewScanner(get(t, url+"data/changes", nil).Body)}
		s.in.Buffer(nil, 1<<24)
		s.next()
		all = append(all, s)
	}
	c.seen <- seen{of(t, "one"), snapshot.Contact{At: at}}
	for _, s := range all {
		if len(keys(s.next())) != 5 {
			t.Error("a viewer did not get everything")
		}
	}
	if n := len(c.runs); n != 1 {
		t.Errorf("the cluster is followed %d times", n)
	}
	late := &stream{t, bufio.NewScanner(get(t, url+"data/changes", nil).Body)}
	late.in.Buffer(nil, 1<<24)
	if m := late.next(); !m.First || len(keys(m)) != 5 {
		t.Errorf("who comes later gets %v", keys(m))
	}
}

// Ten thousand addresses: a move is one row.
func TestDifferenceOfManyIsSmall(t *testing.T) {
	was := rows{}
	for i := range 10_000 {
		was.add("addresses", fmt.Sprint(i), snapshot.Address{Address: fmt.Sprint(i), Node: "one"})
	}
	now := was.with("addresses", "77", snapshot.Address{Address: "77", Node: "two"})
	data, err := json.Marshal(message{Changes: now.since(was)})
	if err != nil || len(data) > 200 {
		t.Errorf("%d bytes: %v", len(data), err)
	}
	if len(was.since(was)) != 0 {
		t.Error("nothing has changed")
	}
}
