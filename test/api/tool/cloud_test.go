package tool

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/snapshot"
	"fairlead.io/test/kit/cloud"
	"fairlead.io/test/kit/rig"
)

// What a cloud would do is its own plan, if the environment has the token: what it then
// does. Otherwise it is skipped, and says why. The plan changes nothing there.
func TestPlanInACloud(t *testing.T) {
	newWorld(t)
	sky := cloud.New(t)
	for _, name := range []string{"cs-1", "cs-2"} {
		sky.AddNode(t, theRig.Kube, name)
		t.Cleanup(func() {
			_ = theRig.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		})
	}
	settings := `{apiVersion: fairlead.io/v1alpha1, kind: Configuration, clusterName: test, classes: [{name: "", backend: cloudscale}]}`
	cfg, err := config.Parse([]byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	theRig.Start(t, sky.Serve(t, cloud.Token), func(o *controller.Options) { o.Config = cfg })
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
	create(t, web)
	has := func(condition func(*corev1.Service) bool) func() error {
		return func() error {
			if err := theRig.Client.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
				return err
			}
			if !condition(web) {
				return fmt.Errorf("it is %+v", web.Status)
			}
			return nil
		}
	}
	rig.Eventually(t, "the Service has a load balancer", has(func(s *corev1.Service) bool {
		return len(s.Status.LoadBalancer.Ingress) > 0 && len(s.Status.Conditions) > 0
	}))

	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("web.yaml", `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop, annotations: {k8s.cloudscale.ch/loadbalancer-pool-algorithm: least_connections}}, spec: {type: LoadBalancer, ports: [{name: http, port: 80}]}}`)
	from := write("fairlead.yaml", settings)
	if got, code := run(t, "plan", "-f", file, "--config", from); code != 0 || !strings.Contains(got, "SKIP load balancers of shop/web at cloudscale: $CLOUDSCALE_ACCESS_TOKEN is not set, so the cloud was not asked\n") {
		t.Errorf("exit %d:\n%s", code, got)
	}
	t.Setenv("CLOUDSCALE_ACCESS_TOKEN", cloud.Token)
	t.Setenv("CLOUDSCALE_API_URL", sky.URL)
	sky.ResetLog()
	p := plan(t, "-f", file, "--config", from)
	if len(p.Services) != 1 || p.Services[0].Service != "shop/web" || p.Services[0].Reason != "ChangesPlanned" || p.Services[0].Cost != "in the cloud: seconds" || !strings.Contains(p.Services[0].Message, "create pool tcp/http") {
		t.Errorf("predicted %+v", p)
	}
	for _, r := range sky.Log() {
		if r.Method != http.MethodGet {
			t.Errorf("plan asked the cloud to %s %s", r.Method, r.Path)
		}
	}
	if got := plan(t, "--drain", "cs-1", "--config", from); len(got.Services) > 1 {
		t.Errorf("predicted %+v", got)
	}
	// It happens.
	if err := theRig.Client.Patch(t.Context(), web, mergePatch(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"k8s.cloudscale.ch/loadbalancer-pool-algorithm": "least_connections"}}})); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "nothing more would change", func() error {
		if left := plan(t, "-f", file, "--config", from); len(left.Services) > 0 {
			return fmt.Errorf("left: %+v", left.Services)
		}
		return nil
	})
	t.Setenv("CLOUDSCALE_ACCESS_TOKEN", "wrongtokenwrongtokenwrongtoken12")
	if got := plan(t, "-f", file, "--config", from); len(got.Services) != 1 || got.Services[0].Cost != "unknown: the cloud does not say" || got.Health() != snapshot.Unknown {
		t.Errorf("with a wrong token: %+v", got)
	}
}
