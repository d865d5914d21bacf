// Package cloudscale tests on real nodes in a simulated cloudscale.ch: what its
// manual says of nodes, load balancers and clusters that exist already.
package cloudscale

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/tree"
)

const (
	controller = "cloudscale-cloud-controller-manager"
	// image is the one that the manifest names.
	image = "fairlead/fairlead:0.1.0"
)

// oldController is what stands for cloudscale's own: the names, labels and
// selector of its manifest.
const oldController = `
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: cloudscale-cloud-controller-manager
  namespace: kube-system
  labels: {k8s-app: cloudscale-cloud-controller-manager}
spec:
  selector:
    matchLabels: {k8s-app: cloudscale-cloud-controller-manager}
  template:
    metadata:
      labels: {k8s-app: cloudscale-cloud-controller-manager}
    spec:
      hostNetwork: true
      nodeSelector: {node-role.kubernetes.io/control-plane: ""}
      tolerations: [{operator: Exists}]
      containers:
      - name: cloudscale-cloud-controller-manager
        image: ` + sandbox.WebImage + `
        command: [/guest, pause]
        env:
        - name: CLOUDSCALE_ACCESS_TOKEN
          valueFrom: {secretKeyRef: {name: cloudscale, key: access-token}}
`

type object = map[string]any

// cluster is one of two nodes, which are servers of a simulated cloud.
type cluster struct {
	*sandbox.Cluster
	t    *testing.T
	kube kubernetes.Interface
}

// start boots the cluster, with the Secret and the image that an installation
// needs.
func start(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{Cluster: &sandbox.Cluster{Name: fmt.Sprintf("fairlead-cloud-%d", os.Getpid()), Nodes: 2, Cloud: sandbox.Cloudscale}, t: t}
	t.Cleanup(func() {
		if err := c.Down(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := c.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	config, err := c.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	binary := tree.Binary(t, "fairlead")
	archive := filepath.Join(t.TempDir(), "fairlead.tar")
	if err := sandbox.FairleadImage(image, binary).WriteFile(archive); err != nil {
		t.Fatal(err)
	}
	if err := c.Load(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	c.kubectl("create", "secret", "generic", "cloudscale", "--namespace=kube-system", "--from-file=access-token="+filepath.Join(c.StateDir, "cloud", "token"))
	return c
}

// install applies the manifest, and leads it to the simulated cloud.
func (c *cluster) install() {
	c.t.Helper()
	raw, err := os.ReadFile(tree.Path("deploy", "cloudscale.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	const env = "        env:\n"
	if strings.Count(string(raw), env) != 1 || !strings.Contains(string(raw), "image: "+image+"\n") {
		c.t.Fatal("the manifest is not what this test knows")
	}
	c.apply(strings.Replace(string(raw), env, env+"        - {name: CLOUDSCALE_API_URL, value: \"http://10.77.0.2:8080\"}\n", 1))
	c.kubectl("rollout", "status", "daemonset/"+controller, "--namespace=kube-system", "--timeout=5m")
}

func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	return c.kubectlWith("", args...)
}

func (c *cluster) apply(manifest string) {
	c.t.Helper()
	c.kubectlWith(manifest, "apply", "--filename=-")
}

func (c *cluster) kubectlWith(input string, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), filepath.Join(c.StateDir, "bin", "kubectl"), append([]string{"--kubeconfig=" + c.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// longest is how long anything may take on a slow machine.
const longest = 3 * time.Minute

func (c *cluster) eventually(what string, atMost time.Duration, condition func(context.Context) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), atMost)
	defer cancel()
	for {
		err := condition(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("%s: not after %v: %v\n%s", what, atMost, err, c.kubectl("logs", "--namespace=kube-system", "--selector=k8s-app="+controller, "--tail=40"))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *cluster) nodes() []corev1.Node {
	c.t.Helper()
	nodes, err := c.kube.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return nodes.Items
}

// condition is nil if the Service has the condition.
func (c *cluster) condition(ctx context.Context, service, kind string) error {
	s, err := c.kube.CoreV1().Services("default").Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, is := range s.Status.Conditions {
		if is.Type == kind && is.Status == metav1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("conditions: %v", s.Status.Conditions)
}

// ask sends a request to the cloud until the load balancer is not busy.
func (c *cluster) ask(path string, body object) (answer object) {
	c.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	c.eventually("POST "+path, longest, func(ctx context.Context) error {
		got, err := c.CloudRequest(ctx, http.MethodPost, path, string(raw))
		if err != nil {
			return err
		}
		return json.Unmarshal(got, &answer)
	})
	return answer
}

func (c *cluster) list(path string) (objects []object) {
	c.t.Helper()
	got, err := c.CloudRequest(c.t.Context(), http.MethodGet, path, "")
	if err == nil {
		err = json.Unmarshal(got, &objects)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return objects
}

// servers has the UUIDs by the names of the nodes.
func (c *cluster) servers() map[string]string {
	out := map[string]string{}
	for _, s := range c.list("/v1/servers") {
		out[s["name"].(string)] = s["uuid"].(string)
	}
	return out
}

// oldLoadBalancer makes for a Service what cloudscale's own controller makes, in
// the cloud and on the Service, and returns its first address.
func (c *cluster) oldLoadBalancer(name string) string {
	c.t.Helper()
	s, err := c.kube.CoreV1().Services("default").Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	port := s.Spec.Ports[0].NodePort
	lb := c.ask("/v1/load-balancers", object{"name": "k8s-service-" + string(s.UID), "flavor": "lb-standard", "zone": "lpg1"})
	pool := c.ask("/v1/load-balancers/pools", object{"name": "tcp", "load_balancer": lb["uuid"], "algorithm": "round_robin", "protocol": "tcp"})
	for _, server := range c.list("/v1/servers") {
		for _, nic := range server["interfaces"].([]any) {
			if nic.(object)["type"] == "public" {
				continue
			}
			for _, a := range nic.(object)["addresses"].([]any) {
				address := a.(object)["address"].(string)
				c.ask(fmt.Sprintf("/v1/load-balancers/pools/%s/members", pool["uuid"]), object{
					"name": net.JoinHostPort(address, fmt.Sprint(port)), "enabled": true, "protocol_port": port, "monitor_port": port,
					"address": address, "subnet": a.(object)["subnet"].(object)["uuid"],
				})
			}
		}
	}
	c.ask("/v1/load-balancers/listeners", object{"name": "tcp/80", "pool": pool["uuid"], "protocol": "tcp", "protocol_port": 80, "allowed_cidrs": []string{},
		"timeout_client_data_ms": 50000, "timeout_member_connect_ms": 5000, "timeout_member_data_ms": 50000})
	c.ask("/v1/load-balancers/health-monitors", object{"pool": pool["uuid"], "type": "tcp", "delay_s": 2, "timeout_s": 1, "up_threshold": 2, "down_threshold": 3, "http": object{}})

	var vips []object
	for _, v := range lb["vip_addresses"].([]any) {
		vips = append(vips, object{"ip": v.(object)["address"], "ipMode": "Proxy"})
	}
	const prefix = "k8s.cloudscale.ch/loadbalancer-"
	for subresource, patch := range map[string]object{
		"": {"metadata": object{"finalizers": []string{"service.kubernetes.io/load-balancer-cleanup"},
			"annotations": object{prefix + "uuid": lb["uuid"], prefix + "config-version": "1", prefix + "zone": "lpg1"}}},
		"status": {"status": object{"loadBalancer": object{"ingress": vips}}},
	} {
		raw, err := json.Marshal(patch)
		if err != nil {
			c.t.Fatal(err)
		}
		var subresources []string
		if subresource != "" {
			subresources = append(subresources, subresource)
		}
		if _, err := c.kube.CoreV1().Services("default").Patch(c.t.Context(), name, types.MergePatchType, raw, metav1.PatchOptions{}, subresources...); err != nil {
			c.t.Fatal(err)
		}
	}
	return vips[0]["ip"].(string)
}

// snapshot is what there is of load balancers, but for how they are.
func (c *cluster) snapshot() map[string][]object {
	out := map[string][]object{}
	for _, path := range []string{"", "/pools", "/listeners", "/health-monitors"} {
		for _, o := range c.list("/v1/load-balancers" + path) {
			delete(o, "status")
			delete(o, "tags")
			out[path] = append(out[path], o)
		}
	}
	for _, pool := range out["/pools"] {
		for _, m := range c.list(fmt.Sprintf("/v1/load-balancers/pools/%s/members", pool["uuid"])) {
			delete(m, "monitor_status")
			delete(m, "tags")
			out["/members"] = append(out["/members"], m)
		}
	}
	return out
}

func (c *cluster) forgetLog() {
	c.t.Helper()
	if _, err := c.CloudRequest(c.t.Context(), http.MethodDelete, "/sandbox/log", ""); err != nil {
		c.t.Fatal(err)
	}
}

// writes are the changes that the cloud was told of, other than tags.
func (c *cluster) writes() (out []string) {
	for _, call := range c.list("/sandbox/log") {
		var body object
		_ = json.Unmarshal([]byte(fmt.Sprint(call["body"])), &body)
		if delete(body, "tags"); call["method"] == http.MethodGet || call["method"] == http.MethodPatch && len(body) == 0 {
			continue
		}
		out = append(out, fmt.Sprint(call["method"], " ", call["path"], " ", call["body"]))
	}
	return out
}

// keepAsking asks for a page again and again from the client host, once it
// answers. The function that it returns ends that, and says what went wrong.
func (c *cluster) keepAsking(url string) (stop func() []string) {
	c.t.Helper()
	get := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.Dial(ctx, sandbox.ClientHost, network, address)
		}}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	c.eventually(url+" answers", longest, get)
	c.eventually(url+" answers, members that do not being known", longest, func(ctx context.Context) error {
		for range 8 {
			if err := get(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	ctx, cancel := context.WithCancel(c.t.Context())
	var (
		asking sync.WaitGroup
		failed []string
	)
	asking.Go(func() {
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := get(ctx); err != nil && ctx.Err() == nil {
				failed = append(failed, fmt.Sprint(time.Now().Format(time.TimeOnly), " ", err))
			}
		}
	})
	return func() []string {
		cancel()
		asking.Wait()
		return failed
	}
}
