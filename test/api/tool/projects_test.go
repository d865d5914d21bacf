package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"fairlead.io/test/kit/rig"
)

// project is one of kube-dc, with a Service that was given an address, one that asks for an
// EIp that does not exist, and one in a namespace that is not a project.
const project = `
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: shalb-dev}, spec: {namespaces: [shalb-dev]}, status: {router: shalb-dev}}
---
{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: ext-public, labels: {network.kube-dc.com/external-network-type: public}}, spec: {protocol: IPv4, cidrBlock: 168.119.17.48/28, gateway: 168.119.17.49, vlan: ext-public}}
---
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: shalb-dev-ext-public}, spec: {externalSubnet: ext-public, type: lrp, v4Ip: 168.119.17.51}, status: {ready: true, v4Ip: 168.119.17.51}}
---
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: eip-shalb-dev-edge}, spec: {externalSubnet: ext-public, type: lrp, v4Ip: 168.119.17.55}, status: {ready: true, v4Ip: 168.119.17.55}}
---
apiVersion: kube-dc.com/v1
kind: EIp
metadata: {name: edge, namespace: shalb-dev}
spec: {externalNetworkType: public}
status: {ipAddress: 168.119.17.55, ovnEIpRef: eip-shalb-dev-edge, ready: true, ownershipType: Exclusive}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shalb-dev, annotations: {service.nlb.kube-dc.com/bind-on-eip: edge}}
spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, selector: {app: web}, ports: [{port: 80}]}
status:
  loadBalancer: {ingress: [{ip: 168.119.17.55, ipMode: Proxy}]}
  conditions: [{type: fairlead.io/Ready, status: "True", reason: EnsuredLoadBalancer, message: Served., lastTransitionTime: "2026-01-01T00:00:00Z"}]
---
apiVersion: v1
kind: Service
metadata: {name: missing, namespace: shalb-dev, annotations: {service.nlb.kube-dc.com/bind-on-eip: ghost}}
spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: nowhere, namespace: shop}
spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web, namespace: shalb-dev, labels: {kubernetes.io/service-name: web}}, addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: [10.0.0.11]}]}
`

// What the commands say about backend ovn.
func TestProjects(t *testing.T) {
	installKubeDC(t)
	w := newWorld(t)
	w.pod("fairlead-controller-x7k", "controller", "")
	create(t, leaseOf(namespace, "fairlead-controller-x7k"))
	apply(t, project)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := " --config " + write("fairlead.yaml", `{apiVersion: fairlead.io/v1alpha1, kind: Configuration, classes: [{name: "", backend: ovn}], ovn: {northbound: ["tcp:ovn-nb.kube-system.svc:6641"]}}`)
	expect(t, "status"+c, 1, `
Controller  1 of 1 ready, leader fairlead-controller-x7k
Agents      not used by any class
Pools       none
Services    ovn: 1 ok, 2 waiting; northbound database: tcp:ovn-nb.kube-system.svc:6641; EIps served by Fairlead
✗ service shalb-dev/missing: Nothing is written on the Service.
  → kubectl fairlead why shalb-dev/missing
✗ service shop/nowhere: Nothing is written on the Service.
  → kubectl fairlead why shop/nowhere
`)
	expect(t, "why shalb-dev/web"+c, 0, `
shalb-dev/web  168.119.17.55  OK
✓ class: Services without a class: served by backend ovn
✓ controller: leader fairlead-controller-x7k
✓ project: router shalb-dev, switches shalb-dev-default
✓ address: 168.119.17.55 of EIp "edge"
✓ endpoints: outside of the cluster
✓ reachable: OVN's router shalb-dev answers for the address and leads traffic to the endpoints; kubectl fairlead does not check that
`)
	expect(t, "why shalb-dev/missing"+c, 1, `
shalb-dev/missing  WAITING
✓ class: Services without a class: served by backend ovn
✓ controller: leader fairlead-controller-x7k
✓ project: router shalb-dev, switches shalb-dev-default
✗ address: EIpMissing: EIp "ghost" does not exist in namespace shalb-dev. Create it, or remove the annotation that requests it.
→ kubectl get eip,fip -n shalb-dev
→ Create the EIp, or correct or remove the annotation. The Service is served at once.
`)
	expect(t, "why shop/nowhere"+c, 1, `
shop/nowhere  WAITING
✓ class: Services without a class: served by backend ovn
✓ controller: leader fairlead-controller-x7k
✗ project: NotAProject: Namespace shop is not that of a project: no Vpc and no Project has it. Create the Service in the namespace of a project, or give it another class.
→ kubectl get vpcs.kubeovn.io
→ Create the Service in the namespace of a project, or give it another class.
`)
	expect(t, "ip"+c, 0, `
ADDRESS         POOL       SERVICE         NODE               INTERFACE   FOR
168.119.17.55   EIp edge   shalb-dev/web   router shalb-dev   -           -
`)
	taken := write("taken.yaml", `{apiVersion: v1, kind: Service, metadata: {name: taken, namespace: shalb-dev, annotations: {service.nlb.kube-dc.com/bind-on-eip: edge}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`)
	expect(t, "plan -f "+taken+c, 1, `
apply service taken   (facts of TIME)
service shalb-dev/taken   none → none   not reachable: the Service gets no address
    PortConflict: Port TCP 80 at EIp "edge" belongs to Service shalb-dev/web, which is older or still has it. Change the port, or request another EIp.
SKIP load balancers of shalb-dev/taken at ovn: its plans need the controller: set the annotation fairlead.io/dry-run on the Service
`)
	found := write("ghost.yaml", `{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: ghost, namespace: shalb-dev}, spec: {externalNetworkType: public}}`)
	expect(t, "plan -f "+found+c, 0, `
apply eip ghost   (facts of TIME)
service shalb-dev/missing   none → an address that kube-ovn allocates   none: the Service gets its first address
`)
	files := write("files.yaml", `
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: edge, namespace: shalb-dev}, spec: {externalNetworkType: moon}}
---
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: typo, namespace: shalb-dev}, spec: {externalNetwork: cloud}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shalb-dev, annotations: {service.nlb.kube-dc.com/bind-on-eip: ghost}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shalb-dev, annotations: {service.nlb.kube-dc.com/bind-on-eip: edge}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: b, namespace: shalb-dev, annotations: {service.nlb.kube-dc.com/bind-on-eip: edge, service.nlb.kube-dc.com/expose-route: https}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: c, namespace: shalb-dev, annotations: {service.nlb.kube-dc.com/bind-on-default-gw-eip: maybe, service.nlb.kube-dc.com/bind: x}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
`)
	expect(t, "check -f "+files+c, 1, `
✗ `+files+`: document 2: strict decoding error: unknown field "spec.externalNetwork"
✗ eip shalb-dev/edge: spec.externalNetworkType "moon" is not a network type; available: public and cloud.
✗ service shalb-dev/web: EIpMissing: EIp "ghost" does not exist in namespace shalb-dev. Create it, or remove the annotation that requests it.
✓ service shalb-dev/a: backend ovn
SKIP service shalb-dev/b: Fairlead does not use these annotations of kube-dc: service.nlb.kube-dc.com/expose-route. They have no effect.
✗ service shalb-dev/b: PortConflict: Port TCP 80 at EIp "edge" belongs to Service shalb-dev/a, which is older or still has it. Change the port, or request another EIp.
✗ service shalb-dev/c: Nothing reads annotation service.nlb.kube-dc.com/bind.
  → Correct its name: docs/reference/annotations.md.
✗ service shalb-dev/c: InvalidRequest: Annotation service.nlb.kube-dc.com/bind-on-default-gw-eip: "maybe" is neither true nor false.
`)

	// A right that is missing is not taken for an object that is missing.
	read := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list"}}
	}
	rig.Grant(t, theRig.Kube, "no-vpcs", read("", "services", "namespaces", "pods", "nodes"), read("discovery.k8s.io", "*"), read("fairlead.io", "*"), read("coordination.k8s.io", "*"), read("networking.k8s.io", "*"), read("metallb.io", "*"),
		read("kube-dc.com", "*"), read("kubeovn.io", "subnets", "ovn-eips", "ovn-dnat-rules"))
	file := kubeconfigOf(t, "no-vpcs")
	rig.Eventually(t, "rights count", func() error {
		got, code := runWith(t, file, strings.Fields("why shalb-dev/web"+c)...)
		if code != 2 || !strings.Contains(got, "? project: unknown: cannot list vpcs\n") || strings.Contains(got, "✗") {
			return fmt.Errorf("exit %d:\n%s", code, got)
		}
		return nil
	})
}

// Where OVN serves Services with addresses of pools, the commands speak of the pool and of the
// router of the namespace.
func TestOVNPools(t *testing.T) {
	w := newWorld(t)
	w.pod("fairlead-controller-x7k", "controller", "")
	create(t, leaseOf(namespace, "fairlead-controller-x7k"))
	w.pool("edge", "168.119.17.60-168.119.17.61")
	apply(t, `
{apiVersion: v1, kind: Namespace, metadata: {name: ovn-shop, annotations: {fairlead.io/ovn-router: vpc-1, fairlead.io/ovn-switches: vpc-1-default}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: ovn-shop, annotations: {fairlead.io/allocated-from: edge}}
spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, selector: {app: web}, ports: [{port: 80}]}
status:
  loadBalancer: {ingress: [{ip: 168.119.17.60, ipMode: Proxy}]}
  conditions: [{type: fairlead.io/Ready, status: "True", reason: EnsuredLoadBalancer, message: Served., lastTransitionTime: "2026-01-01T00:00:00Z"}]
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web, namespace: ovn-shop, labels: {kubernetes.io/service-name: web}}, addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: [10.0.0.11]}]}
---
apiVersion: v1
kind: Service
metadata: {name: nowhere, namespace: shop}
spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}
`)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := " --config " + write("fairlead.yaml", `{apiVersion: fairlead.io/v1alpha1, kind: Configuration, classes: [{name: "", backend: ovn, pools: [native]}], ovn: {northbound: ["tcp:192.0.2.11:6641"]}}`)
	more := write("more.yaml", `{apiVersion: v1, kind: Service, metadata: {name: more, namespace: ovn-shop}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`)
	full := write("pool.yaml", `
{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: edge}, spec: {addresses: [168.119.17.60]}}
---
{apiVersion: v1, kind: Service, metadata: {name: a, namespace: ovn-shop}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: b, namespace: ovn-shop}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
`)
	expect(t, "status"+c, 1, `
Controller  1 of 1 ready, leader fairlead-controller-x7k
Agents      not used by any class
Pools       edge: 2 of 2 used, 0 free
Services    ovn: 1 ok, 1 waiting; northbound database: tcp:192.0.2.11:6641
✗ service shop/nowhere: Nothing is written on the Service.
  → kubectl fairlead why shop/nowhere
`)
	expect(t, "why ovn-shop/web"+c, 0, `
ovn-shop/web  168.119.17.60  OK
✓ class: Services without a class: served by backend ovn
✓ controller: leader fairlead-controller-x7k
✓ project: router vpc-1, switches vpc-1-default
✓ address: 168.119.17.60 from pool "edge" (2 of 2 used, 0 free)
✓ endpoints: outside of the cluster
✓ reachable: OVN's router vpc-1 answers for the address and leads traffic to the endpoints; kubectl fairlead does not check that
`)
	expect(t, "why shop/nowhere"+c, 1, `
shop/nowhere  WAITING
✓ class: Services without a class: served by backend ovn
✓ controller: leader fairlead-controller-x7k
✗ project: NotAProject: Namespace shop is not that of a project: it has no annotation fairlead.io/ovn-router, and no Vpc and no Project has it. Create the Service in the namespace of a project, or give it another class.
→ kubectl annotate namespace shop fairlead.io/ovn-router=ROUTER
→ Create the Service in the namespace of a project, or give it another class.
`)
	expect(t, "ip"+c, 0, `
ADDRESS         POOL   SERVICE        NODE           INTERFACE   FOR
168.119.17.60   edge   ovn-shop/web   router vpc-1   -           -
`)
	expect(t, "plan -f "+more+c, 1, `
apply service more   (facts of TIME)
service ovn-shop/more   none → none   not reachable: the Service gets no address
    PoolExhausted: No available IPs: no IPv4 address is free in pool "edge" (2 of 2 used). Add addresses, or delete a Service.
SKIP load balancers of ovn-shop/more at ovn: its plans need the controller: set the annotation fairlead.io/dry-run on the Service
`)
	expect(t, "plan --remove 168.119.17.60"+c, 0, `
remove addresses 168.119.17.60   (facts of TIME)
service ovn-shop/web   168.119.17.60 → 168.119.17.60   none: the Service keeps its address and is reachable
    OutOfPool: The Service keeps 168.119.17.60, which is in no pool any more. Add that to a pool again, or set the annotation fairlead.io/reallocate: "true" to move the Service.
`)
	expect(t, "check -f "+full+c, 1, `
✓ pool edge: 1 of 1 used, 0 free
✓ service ovn-shop/a: backend ovn
✗ service ovn-shop/b: PoolExhausted: No available IPs: no IPv4 address is free in pool "edge" (1 of 1 used). Add addresses, or delete a Service.
`)
}
