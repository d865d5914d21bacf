// Package sandbox tests on real nodes with real packets: that the sandbox is what
// it says it is, whatever is done to it.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/site"
)

// cluster is up while the tests of this package run, with the Deployment and
// the Service "web".
var cluster = &sandbox.Cluster{Name: "fairlead-lab"}

func TestMain(m *testing.M) {
	os.Exit(site.Main(context.Background(), cluster, m.Run, func(ctx context.Context) (done func(), err error) {
		return func() {}, deployWeb(ctx)
	}))
}

func eventually(t *testing.T, condition func(ctx context.Context) error) {
	t.Helper()
	if err := site.Await(t.Context(), site.Long, func() error { return condition(t.Context()) }); err != nil {
		t.Fatal(err)
	}
}

func newClient(t *testing.T, c *sandbox.Cluster) *kubernetes.Clientset {
	t.Helper()
	config, err := c.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

var webLabels = map[string]string{"app": "web"}

// deployWeb makes a web server on every node, and a Service for them.
func deployWeb(ctx context.Context) error {
	config, err := cluster.RESTConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	set := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	replicas := int32(3)
	set.Spec.Replicas = &replicas
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: webLabels}
	set.Spec.Template.Labels = webLabels
	set.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{
			Name:  "web",
			Image: sandbox.WebImage,
			Env:   []corev1.EnvVar{{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
		}},
		// They stay with a node that is dead for a while.
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: webLabels},
		}},
	}
	if _, err := client.AppsV1().Deployments("default").Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return err
	}
	both := corev1.IPFamilyPolicyRequireDualStack
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilyPolicy: &both, Selector: webLabels,
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intOrString(8080)}},
		},
	}
	_, err = client.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
	return err
}

// webPods waits until the web server answers on all nodes, and returns its
// pods by node.
func webPods(t *testing.T) map[string]corev1.Pod {
	t.Helper()
	client := newClient(t, cluster)
	var byNode map[string]corev1.Pod
	eventually(t, func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		byNode = make(map[string]corev1.Pod)
		for _, p := range pods.Items {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
					byNode[p.Spec.NodeName] = p
				}
			}
		}
		if len(byNode) != 3 {
			return fmt.Errorf("ready on %d nodes of 3", len(byNode))
		}
		// The last word of a node that was killed may be out of date.
		for node, p := range byNode {
			for _, ip := range p.Status.PodIPs {
				if _, err := get(ctx, sandbox.ClientHost, "http://"+net.JoinHostPort(ip.IP, "8080")); err != nil {
					return fmt.Errorf("web server on %s: %w", node, err)
				}
			}
		}
		return nil
	})
	return byNode
}

// get fetches a page as a program on a host would.
func get(ctx context.Context, hostName, url string) (string, error) {
	return getFrom(ctx, cluster, hostName, url)
}

func getFrom(ctx context.Context, c *sandbox.Cluster, hostName, url string) (string, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.Dial(ctx, hostName, network, address)
		},
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// kubectl runs kubectl as administrator of the cluster.
func kubectl(ctx context.Context, args ...string) (string, error) {
	path := filepath.Join(cluster.StateDir, "bin", "kubectl")
	cmd := exec.CommandContext(ctx, path, append([]string{"--kubeconfig=" + cluster.Kubeconfig()}, args...)...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

func ready(ctx context.Context, c *sandbox.Cluster) error {
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if !status.Up || !status.ControlPlane {
		return errors.New("the cluster is not up")
	}
	for _, h := range status.Hosts {
		if !h.Running || !h.Cable || strings.HasPrefix(h.Name, "node") && !h.Ready {
			return fmt.Errorf("host %+v is not well", h)
		}
	}
	return nil
}
