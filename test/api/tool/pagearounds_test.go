package tool

// operator has the kinds of the Prometheus operator, without their fields.
const operator = `for kind in ServiceMonitor PodMonitor PrometheusRule Prometheus; do
  name=$(tr A-Z a-z <<<$kind)
  case $name in prometheus) plural=prometheuses;; *) plural=${name}s;; esac
  kubectl apply -f - <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $plural.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: $kind, singular: $name, plural: $plural}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
END
  kubectl wait --for=condition=Established crd/$plural.monitoring.coreos.com
done
kubectl create namespace monitoring`

// peered has a peer of MetalLB's kind.
const peered = `kubectl create namespace metallb-system --dry-run=client -o yaml | kubectl apply -f -
kubectl apply -f - <<END
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: tor, namespace: metallb-system}
spec: {myASN: 65010, peerASN: 65001, peerAddress: 192.0.2.254}
END`

// Pages with many commands.
const (
	kubeVIPPage        = "docs/guides/migrate-from-kube-vip.md"
	metallbPage        = "docs/guides/migrate-from-metallb.md"
	kubeDCPage         = "docs/guides/kube-dc.md"
	fromKubeDCPage     = "docs/guides/migrate-from-kube-dc.md"
	cloudscalePage     = "docs/guides/cloudscale.md"
	fromCloudscalePage = "docs/guides/migrate-from-cloudscale-ccm.md"
	cloudsigmaPage     = "docs/guides/cloudsigma.md"
	fromCloudsigmaPage = "docs/guides/migrate-from-cloudsigma-ccm.md"
)

const (
	kubeVIPChart = "helm install kube-vip-cloud-provider ./provider --namespace kube-system"
	noMetalLB    = "kubectl delete crd $(kubectl get crd -o name | grep metallb.io | cut -d/ -f2)"
)

// kubeVIPFiles are the manifests of kube-vip and its provider, and the provider as a chart.
const kubeVIPFiles = `cp $T/install/testdata/kube-vip-provider.yaml kube-vip-cloud-controller.yaml
cp left/migrate-kube-vip/kube-vip.yaml kube-vip-daemonset.yaml
cat >>kube-vip-cloud-controller.yaml <<END
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: kube-vip, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:kube-vip-role"}
rules: []
END
mkdir -p provider/templates
cat >provider/Chart.yaml <<END
apiVersion: v2
name: kube-vip-cloud-provider
version: 0.2.9
END
cat >provider/templates/provider.yaml <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-vip-cloud-provider-cm, namespace: kube-system}
data: {cidr-global: 192.0.2.0/28}
END`

// withKubeVIP has kube-vip and its provider, and a Service with an address of theirs.
const withKubeVIP = `kubectl apply -f kube-vip-daemonset.yaml -f kube-vip-cloud-controller.yaml
kubectl create configmap kubevip --namespace kube-system --from-literal=cidr-global=192.0.2.0/28 --dry-run=client -o yaml | kubectl apply -f -
kubectl create service loadbalancer web --tcp=80 --dry-run=client -o json | jq '.metadata.annotations["kube-vip.io/loadbalancerIPs"] = "192.0.2.5" | .metadata.labels.implementation = "kube-vip"' | kubectl apply -f -
kubectl patch service web --subresource=status --type=merge -p '{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.5"}]}}}'` + served

// served are pods that serve, for the Services of all sessions.
const served = `
for name in web nginx-lb hello; do
  kubectl apply -f - <<END
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: $name, labels: {kubernetes.io/service-name: $name}}, addressType: IPv4, endpoints: [{addresses: [10.244.0.7], nodeName: node1, conditions: {ready: true}}]}
END
done`

// withMetalLB has MetalLB as its chart installs it, and a Service with an address of it.
const withMetalLB = `helm install metallb $T/install/testdata/metallb --namespace metallb-system --create-namespace --set webhook=false
kubectl wait --for=condition=Established crd --all
kubectl apply --namespace metallb-system -f - <<'END'
{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: lan}, spec: {addresses: [192.0.2.200-192.0.2.219]}}
---
{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: lan}, spec: {ipAddressPools: [lan]}}
END
helm upgrade metallb $T/install/testdata/metallb --namespace metallb-system
kubectl create service loadbalancer web --tcp=80 --dry-run=client -o yaml | kubectl apply -f -
kubectl annotate --overwrite service web metallb.io/ip-allocated-from-pool=lan
kubectl patch service web --subresource=status --type=merge -p '{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.205"}]}}}'` + served

// metallbManifest has MetalLB as its manifest installs it.
const metallbManifest = `kubectl apply -f left/migrate-metallb-manifest/metallb.yaml
for kind in clusterrole clusterrolebinding role rolebinding; do
  case $kind in
  clusterrole|role) kubectl create $kind metallb-system:speaker --namespace metallb-system --verb=get --resource=services;;
  *) kubectl create $kind metallb-system:speaker --namespace metallb-system --$(sed s/binding// <<<$kind)=metallb-system:speaker --serviceaccount=metallb-system:speaker;;
  esac
  kubectl label $kind metallb-system:speaker --namespace metallb-system app=metallb
done
kubectl create serviceaccount speaker --namespace metallb-system
kubectl label serviceaccount speaker --namespace metallb-system app=metallb`

// withProject has a project of kube-dc, whose manager has gone, and a Service in it.
const withProject = `kubectl create namespace kube-dc
kubectl create namespace metallb-system
kubectl create namespace shop
kubectl create namespace shalb-dev
kubectl create deployment kube-dc-manager --namespace kube-dc --image=kube-dc-manager --replicas=0
kubectl run ovn-central-xxx --namespace kube-system --image=ovn --labels=ovn-nb-leader=true
kubectl apply -f - <<'END'
{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: ext-public, labels: {network.kube-dc.com/external-network-type: public}}, spec: {cidrBlock: 168.119.17.48/28, gateway: 168.119.17.49, vlan: v, excludeIps: [168.119.17.50]}}
---
{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: shalb-dev}, spec: {namespaces: [shalb-dev], enableExternal: true, extraExternalSubnets: [ext-public]}}
---
{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: shalb-dev-ext-public}, spec: {externalSubnet: ext-public, type: lrp, v4Ip: 168.119.17.51}}
---
{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: default-gw, namespace: shalb-dev}, spec: {childRef: shalb-dev-ext-public}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web, namespace: shalb-dev, labels: {kubernetes.io/service-name: web}}, addressType: IPv4, ports: [{name: "80", port: 31416}], endpoints: [{addresses: [10.1.0.40]}]}
END
kubectl create service loadbalancer web --tcp=80 --namespace shalb-dev`

// withCloudscale has the DaemonSet of cloudscale's own manifest.
const withCloudscale = `cp left/migrate-cloudscale/cloudscale.yaml config.yml
cat >>config.yml <<END
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: cloud-controller-manager, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:cloud-controller-manager"}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:cloud-controller-manager"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:cloud-controller-manager"}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: cloud-controller-manager}]
END
kubectl apply -f config.yml` + served

// withCSCCM has CloudSigma's own controller, and a pod of it.
const withCSCCM = `kubectl create deployment csccm-metal --image=registry.example/cloudsigma-ccm:1 --replicas=1
kubectl create service loadbalancer nginx-lb --tcp=80
kubectl patch service nginx-lb --subresource=status --type=merge -p '{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.10"}]}}}'
kubectl run lb-ip-192-0-2-10 --namespace kube-system --image=registry.example/alpine:3 --labels=app=cloudsigma-lb-ip,cloudsigma.com/ip=192.0.2.10` + served

// addressed is a Service that has an address.
const addressed = "kubectl wait service/web --namespace shalb-dev --for=jsonpath='{.status.loadBalancer.ingress[0].ip}' --timeout=2m"

var arounds = []around{
	{page: "README.md", command: "kubectl describe service web", after: "kubectl annotate service web fairlead.io/addresses-"},
	{page: "docs/guides/kubectl-fairlead.md", command: "kubectl fairlead why shop/web", before: "kubectl create namespace shop; kubectl create service loadbalancer web --namespace shop --tcp=80"},
	{page: "docs/runbooks.md", command: "kubectl describe bgppeer", before: peered, after: "kubectl delete bgppeer -n metallb-system tor"},
	{page: "docs/guides/kubectl-fairlead.md", command: "kubectl fairlead check -f", before: "mkdir manifests; cp examples/pool.yaml manifests/"},
	{page: "docs/guides/announce.md", command: "kubectl annotate", after: "kubectl annotate service web kube-vip.io/loadbalancerIPs-"},
	{page: "docs/guides/pools.md", command: "kubectl patch", after: `kubectl patch pool edge --type merge -p '{"spec":{"disabled":false}}'`},
	{page: "docs/guides/page.md", command: "kubectl fairlead ui", want: []string{"http://127.0.0.1:"}},
	{page: "docs/guides/monitoring.md", command: "helm upgrade fairlead charts/fairlead --namespace fairlead-system --reuse-values --set agent.metricsPort", before: operator},
	{page: "docs/tutorial.md", command: "kubectl get nodes", before: "kubectl apply -f examples/pool.yaml"},
	{page: "docs/guides/install.md", command: "helm install", before: "helm uninstall fairlead --namespace fairlead-system"},

	{page: "docs/guides/sandbox.md", command: "kubectl describe service web", want: []string{"10.77.0.209"}},
	{page: "docs/guides/pending.md", command: "kubectl auth can-i patch services --as", want: []string{"yes"},
		after: "kubectl delete service web\nkubectl delete configmap kubevip --namespace kube-system\nkubectl delete -f deploy/kube-vip.yaml"},
	{page: kubeVIPPage, command: "kubectl fairlead migrate --from kube-vip --output json", before: withKubeVIP},
	{page: kubeVIPPage, command: "kubectl get events", want: []string{`service/web The Service has 192.0.2.5 `}},
	{page: kubeVIPPage, command: "kubectl fairlead migrate --from kube-vip --alongside --verify", want: []string{"✓ Services: 1 of 1"}},
	{page: kubeVIPPage, command: "kubectl get configmap kube-vip-cloud-provider-cm", before: "kubectl delete configmap kubevip --namespace kube-system\n" + kubeVIPChart},
	{page: kubeVIPPage, command: "kubectl create configmap kubevip", nth: 2, before: "kubectl delete configmap kubevip --namespace kube-system"},
	{page: kubeVIPPage, command: "kubectl wait agent/node1", before: `helm upgrade fairlead charts/fairlead --namespace fairlead-system --reuse-values --wait --set-json 'kubeVip.env=[
{"name":"bgp_enable","value":"true"},{"name":"bgp_as","value":"65010"},{"name":"bgp_peeraddress","value":"10.99.0.1"},{"name":"bgp_peeras","value":"65001"},{"name":"bgp_routerid","value":"10.99.0.11"}]'
kubectl wait --for=create agent/node1 --timeout=2m`}, // pods are ready at once here
	{page: kubeVIPPage, command: "kubectl delete daemonset --namespace kube-system kube-vip-ds", before: "kubectl apply -f kube-vip-daemonset.yaml"},
	{page: kubeVIPPage, command: "kubectl set env", before: "kubectl apply -f kube-vip-daemonset.yaml", after: "kubectl delete -f kube-vip-daemonset.yaml --ignore-not-found; kubectl apply -f kube-vip-cloud-controller.yaml"},
	{page: kubeVIPPage, command: "helm uninstall kube-vip-cloud-provider", nth: 2, before: kubeVIPChart},
	{page: kubeVIPPage, command: "kubectl delete clusterrole/", before: "kubectl create clusterrolebinding system:kube-vip-binding --clusterrole=system:kube-vip-role --serviceaccount=kube-system:kube-vip"},
	{page: kubeVIPPage, command: "kubectl fairlead migrate --from kube-vip --verify", want: []string{"✓ Services: 1 of 1"}},
	{page: kubeVIPPage, command: "kubectl scale --namespace kube-system deployment/kube-vip-cloud-provider --replicas=1", before: "kubectl apply -f kube-vip-cloud-controller.yaml"},
	{page: kubeVIPPage, command: "kubectl describe service", want: []string{"192.0.2.5"}},

	{page: metallbPage, command: "helm install metallb charts/fairlead", before: "helm uninstall metallb --namespace metallb-system --wait", after: "helm uninstall metallb --namespace metallb-system --wait\n" + noMetalLB},
	{page: metallbPage, command: "kubectl apply -f deploy/metallb.yaml", nth: 1, after: "kubectl delete -f deploy/metallb.yaml\n" + noMetalLB + "\n" + withMetalLB + "\nkubectl fairlead migrate --from metallb --output json > before.json"},
	{page: metallbPage, command: "kubectl delete secret",
		before: "kubectl get secret --namespace metallb-system --selector owner=helm,name=metallb -o json | jq 'del(.items[].metadata[\"resourceVersion\",\"uid\"])' >release.json", after: "kubectl create -f release.json"},
	{page: metallbPage, command: "helm install fairlead", nth: 2, before: "kubectl delete -f deploy/metallb.yaml --selector app.kubernetes.io/name=fairlead"},
	{page: metallbPage, command: "kubectl fairlead migrate --from metallb --verify", want: []string{"✓ Services: 1 of 1", "✓ MetalLB: does not run any more"}},
	{page: metallbPage, command: "kubectl scale --namespace metallb-system deployment/controller", before: "helm uninstall fairlead --namespace metallb-system --wait\n" + metallbManifest + "\nkubectl fairlead migrate --from metallb --output json > before.json"},
	{page: metallbPage, command: "kubectl delete -f deploy/metallb.yaml", before: "kubectl apply -f deploy/metallb.yaml"},
	{page: metallbPage, command: "kubectl delete frrconfigurations", before: `kubectl create namespace frr-k8s-system
kubectl apply -f - <<'END'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: frrconfigurations.frrk8s.metallb.io}
spec:
  group: frrk8s.metallb.io
  names: {kind: FRRConfiguration, singular: frrconfiguration, plural: frrconfigurations}
  scope: Namespaced
  versions:
  - {name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
END
kubectl wait --for=condition=Established crd/frrconfigurations.frrk8s.metallb.io
kubectl apply -f - <<< '{apiVersion: frrk8s.metallb.io/v1beta1, kind: FRRConfiguration, metadata: {name: metallb-node1, namespace: frr-k8s-system}}'`},

	{page: kubeDCPage, command: "sed", before: "helm uninstall fairlead --namespace kube-system --wait"},
	{page: kubeDCPage, command: "helm install fairlead charts/fairlead --namespace kube-system --set ovn.enabled=true --set 'ovn.northbound={ssl", before: "kubectl delete -f deploy/kube-dc.yaml",
		after: "helm uninstall fairlead --namespace kube-system --wait\nkubectl apply -f deploy/kube-dc.yaml\n" + addressed},
	{page: kubeDCPage, command: "kubectl get svc", want: []string{"168.119.17."}},
	{page: kubeDCPage, command: "kubectl describe service", want: []string{"168.119.17."}},
	{page: kubeDCPage, command: "helm install metallb", before: "kubectl delete -f deploy/kube-dc.yaml"},
	{page: kubeDCPage, command: "helm install fairlead charts/fairlead --namespace kube-system --set loadBalancerClass", before: "helm uninstall metallb --namespace metallb-system --wait\nhelm uninstall fairlead --namespace kube-system --wait", after: "helm uninstall fairlead --namespace kube-system --wait"},
	{page: fromKubeDCPage, command: "helm install fairlead charts/fairlead --namespace kube-system --set ovn.enabled=true --set ovn.eips=use", before: "helm uninstall fairlead --namespace fairlead-system --wait\nkubectl scale --namespace kube-dc deployment/kube-dc-manager --replicas=1"},
	{page: fromKubeDCPage, command: "kubectl get secret kube-ovn-tls", before: "kubectl create secret generic kube-ovn-tls --namespace kube-system --from-literal=cacert=a --from-literal=cert=b --from-literal=key=c"},
	{page: fromKubeDCPage, command: "helm install fairlead charts/fairlead --namespace kube-system --set ovn.enabled=true --set image", before: "helm uninstall fairlead --namespace kube-system --wait"},
	{page: fromKubeDCPage, command: "kubectl describe service NAME", want: []string{"168.119.17."}},
	{page: fromKubeDCPage, command: "kubectl fairlead migrate --from kube-dc --verify", want: []string{"✓ Services: 1 of 1"}},
	{page: fromKubeDCPage, command: "kubectl get eip NAME", before: `kubectl patch eip default-gw --namespace shalb-dev --type=merge -p '{"metadata":{"finalizers":["fairlead.io/eip"]}}'`},

	{page: cloudscalePage, command: "kubectl apply -f deploy/cloudscale.yaml", before: "helm uninstall fairlead --namespace kube-system --wait"},
	{page: cloudscalePage, command: "CLOUDSCALE_ACCESS_TOKEN=", before: "kubectl delete -f deploy/cloudscale.yaml", after: "kubectl apply -f deploy/cloudscale.yaml"},
	{page: cloudscalePage, command: "kubectl taint node", after: "kubectl wait node/node2 --for=jsonpath='{.spec.providerID}' --timeout=2m"},
	{page: cloudscalePage, command: "kubectl describe service", nth: 1, want: []string{"LoadBalancer Ingress"}},
	{page: cloudscalePage, command: "kubectl describe service", nth: 2, want: []string{"ChangesPlanned"}},
	{page: fromCloudscalePage, command: "kubectl fairlead migrate --from cloudscale --output json", before: "kubectl delete -f deploy/cloudscale.yaml\n" + withCloudscale},
	{page: fromCloudscalePage, command: "kubectl delete --namespace kube-system daemonset/", before: "kubectl delete -f deploy/cloudscale.yaml\nkubectl apply -f config.yml"},
	{page: fromCloudscalePage, command: "kubectl fairlead migrate --from cloudscale --verify", want: []string{"✓ Services: 1 of 1"}},
	{page: fromCloudscalePage, command: "kubectl apply -f config.yml", before: "helm uninstall fairlead --namespace kube-system --wait\nkubectl apply -f deploy/cloudscale.yaml"},

	{page: cloudsigmaPage, command: "sed", before: "helm uninstall fairlead --namespace kube-system --wait"},
	{page: cloudsigmaPage, command: "kubectl get nodes", after: `kubectl delete -f deploy/cloudsigma.yaml
kubectl create secret generic metal-kubeconfig --namespace tenants --from-file=value=admin.conf`},
	{page: cloudsigmaPage, command: "helm install fairlead charts/fairlead --namespace kube-system --set cloudsigma.enabled=true --set clusterName=metal --set controller.replicas=0", before: "helm uninstall metal --namespace tenants --wait"},
	{page: cloudsigmaPage, command: "kubectl delete service", before: "kubectl create service loadbalancer nginx-lb --tcp=80"},
	{page: fromCloudsigmaPage, command: "kubectl fairlead migrate --from cloudsigma --output json", before: withCSCCM},
	{page: fromCloudsigmaPage, command: "kubectl fairlead migrate --from cloudsigma --verify", want: []string{"✓ Services: 1 of 1"}},
	{page: fromCloudsigmaPage, command: "kubectl get pods --namespace kube-system --selector app=cloudsigma-lb-ip --output wide", nth: 2, before: "kubectl run lb-ip-192-0-2-10 --namespace kube-system --image=registry.example/alpine:3 --labels=app=cloudsigma-lb-ip"},
}
