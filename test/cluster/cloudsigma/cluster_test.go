// Package cloudsigma tests on real nodes in a simulated CloudSigma, whose switch lets
// a frame for an address pass only to the server that has it: what the document of
// CloudSigma's controller manager promises, seen by packets of a client.
package cloudsigma

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/tree"
)

const (
	// image is the one that the manifest names.
	image = sandbox.FairleadRepository + ":0.1.0"
	// clusterName is in the tags.
	clusterName = "metal"
	// clientAddress is that of the client host.
	clientAddress = "10.77.0.100"
)

// nginx stands for the web server of the document's examples: it says whom it
// answers, over HTTP and UDP.
const nginx = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
spec:
  replicas: 3
  selector:
    matchLabels: {app: nginx}
  template:
    metadata:
      labels: {app: nginx}
    spec:
      # One on each node, also after one of them has died.
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels: {app: nginx}
      containers:
      - name: nginx
        image: ` + sandbox.WebImage + `
        args: ["80"]
        securityContext: {runAsUser: 0}
        env:
        - name: NODE_NAME
          valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
        readinessProbe:
          httpGet: {path: /, port: 80}
`

// cluster has nodes that are servers of a simulated cloud.
type cluster struct {
	*sandbox.Cluster
	t    *testing.T
	kube kubernetes.Interface
}

// start boots a cluster with Fairlead's manifest and the web server. proxy is the mode
// of kube-proxy, and flags are the cloud's.
func start(t *testing.T, proxy string, flags ...string) *cluster {
	t.Helper()
	c := boot(t, proxy, flags...)
	c.install()
	c.apply(nginx)
	c.kubectl("rollout", "status", "deployment/nginx", "--timeout=2m")
	return c
}

// boot boots a cluster without Fairlead, whose image the nodes have.
func boot(t *testing.T, proxy string, flags ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, Cluster: &sandbox.Cluster{Name: fmt.Sprintf("fairlead-sigma-%d", os.Getpid()),
		Cloud: sandbox.CloudSigma, CloudFlags: flags, ProxyMode: proxy}}
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
	archive := filepath.Join(t.TempDir(), "fairlead.tar")
	if err := sandbox.FairleadImage(image, tree.Binary(t, "fairlead")).WriteFile(archive); err != nil {
		t.Fatal(err)
	}
	if err := c.Load(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	return c
}

// endpoint of the simulated cloud, for nodes and pods.
const endpoint = "http://10.77.0.2:8080/api/2.0"

// storeCredentials makes the Secret that the manifest asks for.
func (c *cluster) storeCredentials() {
	c.t.Helper()
	token, err := os.ReadFile(filepath.Join(c.StateDir, "cloud", "token"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.kubectl("create", "secret", "generic", "cloudsigma-credentials", "--namespace=kube-system",
		"--from-literal=region=zrh", "--from-literal=cluster-name="+clusterName,
		"--from-literal=username=user@example.com", "--from-literal=password="+strings.TrimSpace(string(token)))
}

// install applies the manifest, which is led to the simulated cloud.
func (c *cluster) install() {
	c.t.Helper()
	c.storeCredentials()
	raw, err := os.ReadFile(tree.Path("deploy", "cloudsigma.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	const env = "        env:\n        - name: CLOUDSIGMA_REGION\n"
	if n := strings.Count(string(raw), env); n != 1 || !strings.Contains(string(raw), "image: "+image+"\n") {
		c.t.Fatalf("the manifest is not what this test knows: %d × %q", n, env)
	}
	led := "        env:\n        - {name: CLOUDSIGMA_API_ENDPOINT, value: \"" + endpoint + "\"}\n        - name: CLOUDSIGMA_REGION\n"
	c.apply(strings.Replace(string(raw), env, led, 1))
	for _, daemons := range []string{"fairlead-controller", "fairlead-agent"} {
		c.kubectl("rollout", "status", "daemonset/"+daemons, "--namespace=kube-system", "--timeout=2m")
	}
	c.initialized()
}

// installChart installs the chart with these values.
func (c *cluster) installChart(values ...string) {
	c.t.Helper()
	c.storeCredentials()
	cmd := exec.CommandContext(c.t.Context(), "go", "tool", "-modfile=tools.mod", "helm", "install", "fairlead", "charts/fairlead", "--namespace=kube-system",
		"--set", "cloudsigma.enabled=true,controller.kind=DaemonSet,cloudsigma.apiEndpoint="+endpoint, "--set", strings.Join(values, ","), "--wait", "--timeout=2m")
	cmd.Dir, cmd.Env = tree.Path(), append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("helm install: %v\n%s", err, out)
	}
	c.initialized()
}

// initialized waits until the nodes are known in the cloud, and take pods.
func (c *cluster) initialized() {
	c.t.Helper()
	c.eventually("all nodes are initialised", time.Minute, func(ctx context.Context) error {
		nodes, err := c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range nodes.Items {
			if !strings.HasPrefix(n.Spec.ProviderID, "cloudsigma://") || len(n.Spec.Taints) > 0 && n.Spec.Taints[0].Key == "node.cloudprovider.kubernetes.io/uninitialized" {
				return fmt.Errorf("%s is %q, tainted %v", n.Name, n.Spec.ProviderID, n.Spec.Taints)
			}
		}
		return nil
	})
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

func (c *cluster) logs() string {
	c.t.Helper()
	return c.kubectl("logs", "--namespace=kube-system", "daemonset/fairlead-controller", "--tail=-1")
}

// rightsSuffice reports errors in the logs of the controller, and of what carries
// addresses.
func (c *cluster) rightsSuffice() {
	c.t.Helper()
	all := c.logs() + c.kubectl("logs", "--namespace=kube-system", "--selector=app=cloudsigma-lb-ip", "--tail=-1")
	for line := range strings.Lines(all) {
		if strings.Contains(line, `"ERROR"`) || strings.Contains(line, "forbidden") {
			c.t.Errorf("a log says %s", line)
		}
	}
}

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
			c.t.Fatalf("%s: not after %v: %v\n%s\n%s", what, atMost, err, c.kubectl("describe", "services"), c.logs())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// address waits for that of a Service, with the document's command.
func (c *cluster) address(service string) string {
	c.t.Helper()
	const ip = "jsonpath={.status.loadBalancer.ingress[0].ip}"
	var out string
	c.eventually(service+" has an address", time.Minute, func(context.Context) error {
		if out = c.kubectl("get", "service", service, "--output="+ip); out == "" {
			return errors.New("it has none")
		}
		return nil
	})
	return out
}

// cloud asks the cloud; into may be nil.
func (c *cluster) cloud(method, path string, body, into any) {
	c.t.Helper()
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			c.t.Fatal(err)
		}
	}
	answer, err := c.CloudRequest(c.t.Context(), method, path, string(raw))
	if err == nil && into != nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// objects lists all of a kind.
func (c *cluster) objects(path string) []map[string]any {
	c.t.Helper()
	var list struct {
		Objects []map[string]any `json:"objects"`
	}
	c.cloud(http.MethodGet, "/api/2.0/"+path+"?limit=0", nil, &list)
	return list.Objects
}

// server is that of a node.
func (c *cluster) server(node string) map[string]any {
	c.t.Helper()
	for _, s := range c.objects("servers/detail/") {
		if s["name"] == node {
			return s
		}
	}
	c.t.Fatalf("no server %s", node)
	return nil
}

// readOnly are fields of a server that the document leaves out of a PUT.
var readOnly = []string{"resource_uri", "runtime", "status", "uuid", "owner", "permissions", "mounted_on", "grantees"}

// attach adds a NIC for the address to a node's server, as the document does.
func (c *cluster) attach(address, node string) (detach func()) {
	c.t.Helper()
	server := c.server(node)
	path := "/api/2.0/servers/" + server["uuid"].(string) + "/"
	for _, field := range readOnly {
		delete(server, field)
	}
	before := server["nics"].([]any)
	server["nics"] = append(slices.Clone(before), map[string]any{"ip_v4_conf": map[string]any{"conf": "static", "ip": map[string]string{"uuid": address}}})
	c.cloud(http.MethodPut, path, server, nil)
	return func() {
		c.t.Helper()
		server["nics"] = before
		c.cloud(http.MethodPut, path, server, nil)
	}
}

// attached are the nodes whose server has a NIC for the address.
func (c *cluster) attached(address string) (nodes []string) {
	c.t.Helper()
	for _, s := range c.objects("servers/detail/") {
		for _, nic := range s["nics"].([]any) {
			conf, _ := nic.(map[string]any)["ip_v4_conf"].(map[string]any)
			if conf == nil || conf["conf"] != "static" {
				continue
			}
			if conf["ip"].(map[string]any)["uuid"] == address {
				nodes = append(nodes, s["name"].(string))
			}
		}
	}
	return nodes
}

// carriers are the nodes that have the address on their interface, by the document's
// command.
func (c *cluster) carriers(ctx context.Context, address string, nodes ...string) (carry []string) {
	for _, node := range nodes {
		out, err := c.Exec(ctx, node, "ip", "addr", "show", "eth0")
		if err == nil && strings.Contains(string(out), "inet "+address+"/32") {
			carry = append(carry, node)
		}
	}
	return carry
}

// tagged are the tags of an address, sorted.
func (c *cluster) tagged(address string) (names []string) {
	c.t.Helper()
	for _, tag := range c.objects("tags/") {
		for _, ip := range c.objects("tags/" + tag["uuid"].(string) + "/ips/") {
			if ip["uuid"] == address {
				names = append(names, tag["name"].(string))
			}
		}
	}
	slices.Sort(names)
	return names
}
