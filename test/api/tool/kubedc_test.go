package tool

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/sandbox/kubeovn"
	"fairlead.io/test/kit/northbound"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

// managed is what kube-dc-manager has made for a Service.
const managed = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: kube-dc-manager, namespace: dc-system}
spec:
  selector: {matchLabels: {app: kube-dc-manager}}
  template:
    metadata: {labels: {app: kube-dc-manager}}
    spec: {containers: [{name: manager, image: "shalb/kube-dc-manager:v0.1.30"}]}
---
{apiVersion: v1, kind: Service, metadata: {name: ovn-nb, namespace: kube-system}, spec: {ports: [{port: 6641}]}}
---
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: shalb-dev}, spec: {namespaces: [shalb-dev], enableExternal: true, extraExternalSubnets: [ext-public]}, status: {router: shalb-dev, subnets: [shalb-dev-default]}}
---
{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: ext-public, labels: {network.kube-dc.com/external-network-type: public}}, spec: {protocol: IPv4, cidrBlock: 168.119.17.48/28, gateway: 168.119.17.49, vlan: ext-public}}
---
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: shalb-dev-ext-public}, spec: {externalSubnet: ext-public, type: lrp, v4Ip: 168.119.17.51}, status: {ready: true, type: lrp, v4Ip: 168.119.17.51}}
---
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: eip-slb-web-ab1cd}, spec: {externalSubnet: ext-public, type: lrp, v4Ip: 168.119.17.55}, status: {ready: true, type: lrp, v4Ip: 168.119.17.55}}
---
apiVersion: kube-dc.com/v1
kind: EIp
metadata: {name: slb-web-ab1cd, namespace: shalb-dev}
spec: {externalNetworkType: public}
status: {ipAddress: 168.119.17.55, ovnEIpRef: eip-slb-web-ab1cd, ready: true, ownershipType: Exclusive, deleteReleased: true, owners: [{type: Service, ownerRef: web}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shalb-dev}
spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{name: client, port: 80}]}
status: {loadBalancer: {ingress: [{ip: 168.119.17.55}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web, namespace: shalb-dev, labels: {kubernetes.io/service-name: web}}, addressType: IPv4, ports: [{name: client, port: 31416}], endpoints: [{addresses: [10.1.0.40]}]}
`

// released is the Fairlead that replaces it: the pod says where its configuration is.
const released = `
apiVersion: v1
kind: ConfigMap
metadata: {name: fairlead, namespace: fairlead-system}
data:
  fairlead.yaml: |
    CONFIGURATION
---
apiVersion: v1
kind: Pod
metadata: {name: fairlead-controller-x7k, namespace: fairlead-system, labels: {app.kubernetes.io/name: fairlead, app.kubernetes.io/component: controller}}
spec:
  containers:
  - {name: controller, image: fairlead, args: [controller, --config=/etc/fairlead/fairlead.yaml], volumeMounts: [{name: config, mountPath: /etc/fairlead}]}
  volumes: [{name: config, configMap: {name: fairlead}}]
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
`

// The comparison after kube-dc-manager was replaced says what is so: nothing has been taken over
// yet, all has, and what went wrong later.
func TestKubeDCVerify(t *testing.T) {
	installKubeDC(t)
	newWorld(t)
	nb := northbound.Start(t)
	nb.Ctl("init")
	nb.Northd()
	nb.Ctl("lr-add", "shalb-dev", "--", "ls-add", "shalb-dev-default", "--", "lrp-add", "shalb-dev", "inside", "02:00:00:00:00:01", "10.1.0.1/16",
		"--", "lrp-add", "shalb-dev", "shalb-dev-ext-public", "ae:d6:b9:e1:76:78", "168.119.17.51/28", "--", "lrp-set-gateway-chassis", "shalb-dev-ext-public", "ch1",
		"--", "lb-add", "shalb-dev-web-tcp", "168.119.17.55:80", "10.1.0.40:31416", "tcp", "--", "lr-lb-add", "shalb-dev", "shalb-dev-web-tcp",
		"--", "ls-lb-add", "shalb-dev-default", "shalb-dev-web-tcp", "--", "set", "Load_Balancer", "shalb-dev-web-tcp", "external_ids:vendor=kube-ovn")
	apply(t, managed)
	followOVN(t)
	dir := t.TempDir()
	before := filepath.Join(dir, "before.json")
	saved, code := run(t, "migrate", "--from", "kube-dc", "-o", "json")
	if err := os.WriteFile(before, []byte(saved), 0o600); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, saved)
	}

	// Fairlead runs, and has not begun; kube-dc-manager has not ended.
	configuration := `{apiVersion: fairlead.io/v1alpha1, kind: Configuration, classes: [{name: "", backend: ovn}], ovn: {eips: serve, northbound: ["` + nb.Endpoint() + `"]}}`
	apply(t, strings.Replace(released, "CONFIGURATION", configuration, 1))
	create(t, leaseOf(namespace, "fairlead-controller-x7k"))
	verify := "migrate --from kube-dc --verify " + before
	compared := func(code int, want string) {
		t.Helper()
		rig.Eventually(t, "the comparison", func() error {
			got, is := run(t, strings.Fields(verify)...)
			_, got, _ = strings.Cut(got, "\n") // when the state was saved
			if got != strings.TrimPrefix(want, "\n") || is != code {
				return errors.New(got)
			}
			return nil
		})
	}
	compared(1, `
✗ Service shalb-dev/web: has its address, but Fairlead has written nothing on it yet
  → kubectl fairlead why shalb-dev/web
✓ objects: 1 EIp as before
✓ objects: 0 FIp as before
✓ objects: 0 Project as before
✗ kube-dc-manager: still there: deployment dc-system/kube-dc-manager
  → Finish the steps: kubectl fairlead migrate --from kube-dc shows them.
`)

	manager := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "dc-system", Name: "kube-dc-manager"}}
	scale := func(replicas int) {
		t.Helper()
		if err := theRig.Client.Patch(t.Context(), manager, mergePatch(t, map[string]any{"spec": map[string]any{"replicas": replicas}})); err != nil {
			t.Fatal(err)
		}
	}
	scale(0)
	file, health := filepath.Join(dir, "fairlead.yaml"), rig.FreeAddress(t)
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	p := process.Start(t, exec.Command(tree.Binary(t, "fairlead"), "controller", "--config="+file, "--namespace="+namespace, "--kubeconfig="+theRig.API.Kubeconfig,
		"--health-address="+health, "--metrics-address="+rig.FreeAddress(t)))
	rig.Eventually(t, "the controller is ready", func() error {
		r, err := http.Get("http://" + health + "/readyz") //nolint:noctx // it answers at once
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return errors.New(r.Status)
		}
		return nil
	})
	compared(0, `
✓ Services: 1 of 1 have the address that they had, and Fairlead serves it
✓ objects: 1 EIp as before
✓ objects: 0 FIp as before
✓ objects: 0 Project as before
SKIP kube-dc-manager: deployment dc-system/kube-dc-manager is left, with no replicas
✓ kube-dc-manager: does not run any more
`)
	if row := nb.Ctl("--bare", "--columns=external_ids", "find", "Load_Balancer", "name=shalb-dev-web-tcp"); !strings.Contains(row, "vendor=fairlead") {
		t.Errorf("OVN has %q", row)
	}

	// Somebody starts the manager again.
	p.Kill()
	scale(1)
	compared(1, `
✓ Services: 1 of 1 have the address that they had, and Fairlead serves it
✓ objects: 1 EIp as before
✓ objects: 0 FIp as before
✓ objects: 0 Project as before
✗ kube-dc-manager: still there: deployment dc-system/kube-dc-manager
  → Finish the steps: kubectl fairlead migrate --from kube-dc shows them.
`)
}

// followOVN runs what stands in for kube-ovn until the test ends.
func followOVN(t *testing.T) {
	t.Helper()
	ovn, err := kubeovn.New(theRig.API.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ovn.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("kube-ovn: %v", err)
		}
	})
}
