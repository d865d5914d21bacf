package kubedc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/config"
	"fairlead.io/test/kit/northbound"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

// chaosTime is how long it lasts.
const chaosTime = time.Minute

// TestChaos: somebody removes and changes rows at random, the database's leader and the
// controller are killed, Services and endpoints come and go. In the end everything is as
// it is to be, and nothing of others was touched.
func TestChaos(t *testing.T) {
	t.Parallel()
	c := newChaos(t)
	c.launch()
	for i := range 4 {
		c.create("shalb-dev", fmt.Sprintf("own%d", i), "", int32(80+i), nil)
		c.create("shalb-dev", fmt.Sprintf("gw%d", i), "", int32(8000+i), map[string]string{kubedc.AnnotationDefaultGateway: "true"})
		c.create("annotated", fmt.Sprintf("pooled%d", i), "pooled", int32(80+i), nil)
	}
	rig.Eventually(t, "all are served", c.converged)
	stable := c.addresses()
	foreign := c.foreign()

	ctx, stop := context.WithTimeout(t.Context(), chaosTime)
	defer stop()
	var actors sync.WaitGroup
	for every, act := range map[time.Duration]func(){120 * time.Millisecond: c.vandal, 150 * time.Millisecond: c.tenant, 2500 * time.Millisecond: c.killer} {
		actors.Go(func() { repeat(ctx, every, act) })
	}
	w := c.observe(stable)
	actors.Wait()
	rig.Eventually(t, "the chaos is over", c.up)
	rig.Eventually(t, "all is as it is to be", c.converged)
	w.stop()
	if after := c.foreign(); after != foreign {
		t.Errorf("what others have is\n%s\nand was\n%s", after, foreign)
	}
	if now := c.addresses(); !maps.Equal(now, stable) {
		t.Errorf("addresses are %v, and were %v", now, stable)
	}
	t.Logf("%d rows vandalised, %d kills; the longest that an address had no row while database and controller were up: %s (%d gaps)",
		c.vandalised.Load(), c.kills.Load(), w.longest.Round(time.Millisecond), w.gaps)
}

func repeat(ctx context.Context, every time.Duration, act func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			act()
		}
	}
}

// chaos is a project with a cluster of databases, and a controller of its own process.
type chaos struct {
	*story
	cluster    northbound.Cluster
	binary     string
	config     string
	metrics    string
	process    *process.Process
	vandalised atomic.Int32
	kills      atomic.Int32
	serial     atomic.Int32
	// whole is whether the controller runs and the database has all its servers.
	whole atomic.Bool
}

func newChaos(t *testing.T) *chaos {
	c := &chaos{story: newStory(t, useRig(t)), cluster: northbound.StartCluster(t), binary: tree.Binary(t, "fairlead"), metrics: rig.FreeAddress(t)}
	c.installKinds()
	c.clean()
	c.makeProject()
	c.nb = c.cluster.Leader()
	c.nb.Ctl("init")
	c.cluster.Northd()
	c.router("shalb-dev", "10.0.0.1/16", "168.119.17.51/28")
	c.router("shalb-prod", "10.1.0.1/16", "168.119.17.50/28")
	for _, args := range [][]string{
		{"lb-add", "vpc-shalb-dev-tcp-load", "10.96.0.1:443", "10.0.0.5:6443"},
		{"ls-lb-add", "shalb-dev-default", "vpc-shalb-dev-tcp-load"},
		{"create", "Load_Balancer", "name=shalb-dev-own0-tcp", "protocol=tcp", "external_ids:vendor=fairlead", "external_ids:fairlead.io/cluster=c2", "external_ids:fairlead.io/service=shalb-dev/own0"},
		{"lr-nat-add", "shalb-dev", "snat", "168.119.17.51", "10.0.0.0/16"},
		{"lr-policy-add", "shalb-dev", "30000", "ip4.dst == 10.0.0.0/16", "allow"},
	} {
		c.nb.Ctl(args...)
	}
	c.runKubeOVN()
	pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "chaos"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"203.0.113.0/24"}}}
	annotated := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "annotated"}}
	if err := errors.Join(c.rig.Client.Create(t.Context(), pool), c.rig.Client.Patch(t.Context(), annotated, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"shalb-prod",%q:"shalb-prod-default"}}}`, kubedc.AnnotationRouter, kubedc.AnnotationSwitches)))); err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(defaultConfig) + "\novn: {northbound: [" + strings.Join(c.cluster.Endpoints(), ", ") + "]}\n"
	if _, err := config.Parse([]byte(text)); err != nil {
		t.Fatal(err)
	}
	c.config = filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *chaos) launch() {
	c.process = c.rig.Launch(c.t, c.binary, "--config", c.config, "--metrics-address", c.metrics, "--log-level=warn")
	c.whole.Store(true)
}

// create makes a Service with endpoints.
func (c *chaos) create(namespace, name, class string, port int32, annotations map[string]string) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: port}}}}
	if class != "" {
		s.Spec.LoadBalancerClass = &class
	}
	if err := errors.Join(c.client.Create(context.Background(), s), c.client.Create(context.Background(), c.slice(namespace, name))); err != nil && !apierrors.IsAlreadyExists(err) {
		c.t.Error(err)
	}
}

// slice has endpoints of the namespace's network, chosen at random.
func (c *chaos) slice(namespace, name string) *discoveryv1.EndpointSlice {
	network := map[string]byte{"shalb-dev": 0, "annotated": 1}[namespace]
	out := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To(""), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(int32(8080))}},
	}
	for range rand.IntN(3) {
		a := netip.AddrFrom4([4]byte{10, network, 1, byte(1 + rand.IntN(200))})
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.String()}})
	}
	return out
}

// up says whether database and controller work.
func (c *chaos) up() error {
	resp, err := http.Get("http://" + c.metrics + "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text := make([]byte, 1<<20)
	n, _ := readFull(resp, text)
	if !strings.Contains(string(text[:n]), "fairlead_ovn_connected 1") || c.cluster.Leader() == nil {
		return errors.New("not connected")
	}
	return nil
}
