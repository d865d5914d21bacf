package page

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/config"
	livepage "fairlead.io/internal/page"
	"fairlead.io/internal/serve"
	"fairlead.io/internal/snapshot"
	"fairlead.io/test/kit/browser"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

// grant creates the accounts and roles of the chart, and returns a client with the rights
// that the controller has with page.enabled.
func grant(t *testing.T) *rest.Config {
	t.Helper()
	data, err := os.ReadFile(tree.Path("charts/fairlead/testdata/everything.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	account := ""
	for _, document := range bytes.Split(data, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		var o client.Object
		switch kind.Kind {
		case "ClusterRole":
			o = &rbacv1.ClusterRole{}
		case "ClusterRoleBinding":
			o = &rbacv1.ClusterRoleBinding{}
		case "Role":
			o = &rbacv1.Role{}
		case "RoleBinding":
			o = &rbacv1.RoleBinding{}
		default:
			continue
		}
		if err := yaml.Unmarshal(document, o); err != nil {
			t.Fatal(err)
		}
		if b, is := o.(*rbacv1.ClusterRoleBinding); is && strings.HasSuffix(b.Name, "-page") {
			account = b.Subjects[0].Name
		}
		if o.GetNamespace() != "" && o.GetNamespace() != namespace {
			continue
		}
		create(t, o)
		t.Cleanup(func() { _ = client.IgnoreNotFound(theRig.Client.Delete(context.Background(), o)) })
	}
	api := theRig.API.RESTConfig()
	api.Impersonate.UserName = "system:serviceaccount:" + namespace + ":" + account
	return api
}

// token makes an account, bound to roles, and returns its token.
func token(t *testing.T, name string, roles ...string) string {
	t.Helper()
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
	for _, role := range roles {
		b := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "test-" + name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: name}}}
		create(t, b)
		t.Cleanup(func() { _ = client.IgnoreNotFound(theRig.Client.Delete(context.Background(), b)) })
	}
	made, err := theRig.Kube.CoreV1().ServiceAccounts("shop").CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Status.Token
}

// In the cluster, the page has the rights of the chart, and is for those whom the API
// server permits to see it.
func TestPageInTheCluster(t *testing.T) {
	w := newWorld(t, "worker-1", "worker-2")
	w.pool("edge", nil, "192.0.2.16/30")
	w.service("shop/web", nil)
	web := w.address("shop/web")
	w.announce("worker-2", web, "shop/web", time.Hour)
	w.report("worker-2", nil)

	api := grant(t)
	c, err := config.Parse([]byte("{apiVersion: fairlead.io/v1alpha1, kind: Configuration, classes: [{name: '', backend: announce, pools: [native, metallb]}]}"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := snapshot.NewWatcher(snapshot.Options{REST: api, Config: c, PodNamespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	p := livepage.New("prod", source)
	s, err := serve.Page("127.0.0.1:0", api, p.Shell(), p.Data(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		p.Close()
	})

	base := "https://" + s.Address().String()
	reader, nobody := token(t, "reader", "fairlead-page-reader"), token(t, "nobody")
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	status := func(path, token string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := insecure.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		start := make([]byte, 200)
		n, _ := io.ReadAtLeast(answer.Body, start, 10)
		return answer.StatusCode, string(start[:n])
	}
	for path, want := range map[string]int{"/page/": 200, "/page/app.js": 200, "/page/data/changes": 401, "/page/data/why?about=shop/web": 401, "/page/data/other": 401} {
		if got, text := status(path, ""); got != want {
			t.Errorf("%s without a token: %d %s", path, got, text)
		}
	}
	if got, text := status("/page/data/changes", nobody); got != http.StatusForbidden {
		t.Errorf("with the token of nobody: %d %s", got, text)
	}
	rig.Eventually(t, "the reader may see it", func() error {
		if got, text := status("/page/data/changes", reader); got != http.StatusOK {
			return fmt.Errorf("%d %s", got, text)
		}
		return nil
	})

	tab := browser.Start(t).Open(base+"/", 1200, 800)
	tab.Until("the page asks who it is", `document.querySelector('#signin').open`)
	if err := tab.Eval(fmt.Sprintf(`document.querySelector('#signin input').value = %q`, reader), nil); err != nil {
		t.Fatal(err)
	}
	tab.Click("#signin .go")
	tab.Until("the page is live", browser.Live+" && "+browser.On(web, "worker-2"))
	if got := tab.Text("#unknown"); got != "" {
		t.Errorf("with the rights of the chart: %s", got)
	}
	if got := tab.Text("#verdict"); !strings.Contains(got, "1/1") {
		t.Errorf("the head says %q", got)
	}
	tab.Click(browser.Row(web))
	tab.Until("why is answered", `document.querySelectorAll('#why .step.passed').length >= 5`)
	for _, r := range tab.Requests() {
		if !strings.HasPrefix(r, base) {
			t.Errorf("the browser asked for %s", r)
		}
	}
}
