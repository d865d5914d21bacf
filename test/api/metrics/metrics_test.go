// Package metrics has the servers of metrics on a real API server: who may read
// them, and what it costs to find out.
package metrics

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"fairlead.io/internal/serve"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, sandbox.Options{NoControllers: true}, &theRig))
}

// counted counts the reviews that go to the API server.
type counted struct {
	next           http.RoundTripper
	tokens, access *atomic.Int64
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		c.tokens.Add(1)
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		c.access.Add(1)
	}
	return c.next.RoundTrip(r)
}

// TestUnknownTokens: a reader costs one review, a flood of guesses a few, and the
// reader is served all the while.
func TestUnknownTokens(t *testing.T) {
	token := reader(t)
	var tokens, accesses atomic.Int64
	api := theRig.API.RESTConfig()
	api.Wrap(func(next http.RoundTripper) http.RoundTripper { return counted{next, &tokens, &accesses} })
	url := start(t, api)

	rig.Eventually(t, "the reader may read", func() error { return get(t.Context(), url, token, http.StatusOK) })
	tokens.Store(0)
	accesses.Store(0)
	for range 50 {
		if err := get(t.Context(), url, token, http.StatusOK); err != nil {
			t.Fatal(err)
		}
		if err := get(t.Context(), url, "guess", http.StatusUnauthorized); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := tokens.Load(), accesses.Load(); n > 3 || m > 1 {
		t.Errorf("%d token reviews and %d access reviews for a hundred requests with two tokens", n, m)
	}

	tokens.Store(0)
	began := time.Now()
	var flood sync.WaitGroup
	var refused atomic.Int64
	for i := range 8 {
		flood.Go(func() {
			for j := range 50 {
				if get(t.Context(), url, fmt.Sprintf("guess %d %d", i, j), http.StatusTooManyRequests) == nil {
					refused.Add(1)
				}
			}
		})
	}
	for range 20 {
		if err := get(t.Context(), url, token, http.StatusOK); err != nil {
			t.Errorf("the reader in a flood of guesses: %v", err)
		}
	}
	flood.Wait()
	// One a second and five at once for the one address they come from; one for the
	// reader.
	limit := int64(time.Since(began).Seconds()) + 7
	if n := tokens.Load(); n > limit || refused.Load() == 0 {
		t.Errorf("%d token reviews for 400 guesses, not at most %d; %d were refused without", n, limit, refused.Load())
	}
}

// reader makes an account that may read metrics, and returns its token.
func reader(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	accounts := theRig.Kube.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	if _, err := theRig.Kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "reader"}}}
	if _, err := theRig.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := accounts.CreateToken(ctx, "reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// start serves metrics where they are for readers only, and returns the URL.
func start(t *testing.T, api *rest.Config) string {
	t.Helper()
	probe, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	port := probe.Addr().(*net.TCPAddr).Port
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := serve.Metrics(fmt.Sprintf("0.0.0.0:%d", port), api, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return fmt.Sprintf("https://127.0.0.1:%d/metrics", port)
}

// get wants one answer from a URL.
func get(ctx context.Context, url, token string, want int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != want {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}
