package sources

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/rig"
)

// journal keeps what is logged, and what is asked of the API server about one thing.
type journal struct {
	about string // in the path
	mu    sync.Mutex
	text  bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// of notes what goes through next, of which each client has its own.
func (j *journal) of(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, j.about) {
			_, _ = j.Write([]byte("asked for " + r.URL.Path + "\n"))
		}
		return next.RoundTrip(r)
	})
}

// onlyUsing is a configuration with pools of one format.
func onlyUsing(dialects ...lb.Dialect) *config.Configuration {
	c := config.Default()
	c.Classes = []config.Class{{Backend: config.Announce, Pools: dialects}}
	return c
}

// follow follows until the test ends. What has changed can be received.
func follow(t *testing.T, ctx context.Context, o Options) (*Reader, <-chan string, error) {
	t.Helper()
	changes := make(chan string, 100)
	note := func(what string) func() {
		return func() {
			select {
			case changes <- what:
			default:
			}
		}
	}
	background, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	r := New(o, nil)
	return r, changes, r.Follow(ctx, background, &running, Changes{Pools: note("pools"), Services: note("services")})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An agent that may not read the ConfigMap goes on without it, says so once, and
// takes it up when it may: by the narrowest right, for one ConfigMap of one namespace.
func configMapIsReadOnceAllowed(t *testing.T, r *rig.Rig) {
	kube, err := kubernetes.NewForConfig(r.API.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: "kube-system", Name: "kubevip"}
	if _, err := kube.CoreV1().ConfigMaps(meta.Namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"cidr-global": "0.0.0.0/32"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	j := &journal{about: "configmaps"}
	o := Options{REST: rest.CopyConfig(r.API.RESTConfig()), Config: onlyUsing(kubevip.Name), Log: slog.New(slog.NewTextHandler(j, nil)), KubeVIP: types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name}}
	o.REST.Impersonate.UserName = "some-agent"
	o.REST.Wrap(j.of)
	var took time.Duration
	t.Run("and ends", func(t *testing.T) { // see TestMain for what it may leave behind
		began := time.Now()
		if _, _, err := follow(t, t.Context(), o); err != nil {
			t.Error(err)
		}
		took = time.Since(began)
	})
	j.text.Reset()
	began := time.Now()
	reader, changes, err := follow(t, t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if took = min(took, time.Since(began)); took >= configMapPatience { // a busy machine may be late once
		t.Errorf("waited %s for what may not be read", took)
	}
	rig.Eventually(t, "the agent has tried again", func() error {
		if strings.Count(j.String(), "asked for") < 3 {
			return errors.New(j.String())
		}
		return nil
	})
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{meta.Name}, Verbs: []string{"get", "list", "watch"}}}}
	if _, err := kube.RbacV1().Roles(meta.Namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "some-agent"}}}
	if _, err := kube.RbacV1().RoleBindings(meta.Namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case what := <-changes:
		if what != "services" {
			t.Errorf("%s have changed", what)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("not read, although it may be")
	}
	reader.readConfigMap(t.Context())
	if len(reader.config.Pools) != 1 {
		t.Errorf("read: %+v", reader.config.Pools)
	}
	said := j.String()
	if n := strings.Count(said, "no permission to read"); n != 1 {
		t.Errorf("told %d times:\n%s", n, said)
	}
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "asked for") && line != "asked for /api/v1/namespaces/kube-system/configmaps\n" {
			t.Error(line)
		}
	}
}
