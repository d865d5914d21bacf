// Package deploy renders the manifests of this directory from the chart. The product does
// not need it.
package deploy

import "fmt"

const (
	Chart            = "charts/fairlead"
	Namespace        = "fairlead-system"
	metallbNamespace = "metallb-system"
	cloudNamespace   = "kube-system"
)

// Headers of the files in deploy/. A chart cannot have the namespace it is
// installed into, so the namespace is written here.
const (
	manifestHeader = `# Fairlead without Helm: kubectl apply -f fairlead.yaml
#
# Rendered from charts/fairlead by "make generate". Do not edit.
---
apiVersion: v1
kind: Namespace
metadata:
  name: ` + Namespace + `
`
	metallbHeader = `# Fairlead in MetalLB's place, without Helm: it serves Services without a class
# from the IPAddressPools and L2Advertisements in this namespace.
#
#   kubectl create -f metallb-crds.yaml   # those that are there already stay
#   kubectl apply -f metallb.yaml
#
# Rendered from charts/fairlead by "make generate". Do not edit.
---
apiVersion: v1
kind: Namespace
metadata:
  name: ` + metallbNamespace + `
  labels:
    # Agents use the nodes' network.
    pod-security.kubernetes.io/enforce: privileged
    pod-security.kubernetes.io/audit: privileged
    pod-security.kubernetes.io/warn: privileged
`
	cloudscaleHeader = `# Fairlead as the cloud controller manager of cloudscale.ch, without Helm:
#
#   kubectl create secret generic cloudscale --namespace kube-system --from-literal=access-token=...
#   kubectl apply -f cloudscale.yaml
#
# Names, labels and flags are those of cloudscale's own manifest, which this one
# replaces where it is installed.
#
# Rendered from charts/fairlead by "make generate". Do not edit.
`
	cloudsigmaHeader = `# Fairlead as the cloud controller manager of CloudSigma, without Helm. Each cluster
# of an account needs its own cluster-name:
#
#   kubectl create secret generic cloudsigma-credentials --namespace kube-system \
#     --from-literal=region=zrh --from-literal=cluster-name=prod \
#     --from-literal=username=... --from-literal=password=...
#   kubectl apply -f cloudsigma.yaml
#
# The pods that carry addresses, one on each node, have the label
# app=cloudsigma-lb-ip.
#
# Rendered from charts/fairlead by "make generate". Do not edit.
`
	kubedcHeader = `# Fairlead for the projects of kube-dc, without Helm: Services without a class get an
# EIp, and a load balancer on the OVN router of their project.
#
#   kubectl apply -f kube-dc.yaml
#
# Stop kube-dc-manager first, or give Fairlead a class of its own and set ovn.eips to
# use: docs/guides/migrate-from-kube-dc.md.
# If the northbound database uses TLS, set ovn.northbound in the ConfigMap to
# ["ssl:ovn-nb.kube-system.svc:6641"]: the certificates are those of kube-ovn's Secret
# kube-ovn-tls.
#
# Rendered from charts/fairlead by "make generate". Do not edit.
`
	kubevipHeader = `# Fairlead in the place of kube-vip's cloud provider, without Helm: it gives Services
# addresses from the ConfigMap kubevip in kube-system, and kube-vip announces them.
#
#   kubectl apply -f kube-vip.yaml
#
# Names, labels and environment are those of the provider's own manifest, which this
# one replaces where it is installed.
#
# Rendered from charts/fairlead by "make generate". Do not edit.
`
	metallbKindsHeader = `# MetalLB's kinds, for who does not have them:
#
#   kubectl create -f metallb-crds.yaml
#
# "create" says "already exists" of those that are there, and leaves them alone;
# "apply" would replace them.
#
# Rendered from charts/fairlead by "make generate". Do not edit.
`
)

// Render makes the manifests from a chart, by name of file. helm runs Helm.
func Render(helm func(args ...string) ([]byte, error), chart string) (map[string][]byte, error) {
	made := map[string][]byte{}
	for name, m := range map[string]struct {
		header string
		args   []string
	}{
		"fairlead.yaml": {manifestHeader, []string{"--namespace", Namespace, "--set", "metallb.crds=false"}},
		"metallb.yaml":  {metallbHeader, []string{"--namespace", metallbNamespace, "--set", "metallb.crds=false,metallb.labels=true,classes[0].name=,classes[0].pools={metallb,native}"}},
		"cloudscale.yaml": {cloudscaleHeader, []string{"--namespace", cloudNamespace, "--set", "cloudscale.enabled=true,cloudscale.names=true,controller.kind=DaemonSet",
			"--set", "controller.extraArgs={--allow-untagged-cloud,--v=3,--concurrent-service-syncs=16}"}},
		"cloudsigma.yaml": {cloudsigmaHeader, []string{"--namespace", cloudNamespace, "--set", "cloudsigma.enabled=true,controller.kind=DaemonSet"}},
		"kube-dc.yaml": {kubedcHeader, []string{"--namespace", cloudNamespace, "--set", "ovn.enabled=true",
			"--set", "controller.tolerations[0].key=node-role.kubernetes.io/control-plane,controller.tolerations[0].operator=Exists"}},
		"kube-vip.yaml": {kubevipHeader, []string{"--namespace", cloudNamespace, "--set", "kubeVip.provider=true,kubeVip.names=true,controller.replicas=1",
			"--set", "controller.tolerations[0].key=node-role.kubernetes.io/control-plane,controller.tolerations[0].operator=Exists"}},
		"metallb-crds.yaml": {metallbKindsHeader, []string{"--namespace", metallbNamespace, "--show-only", "templates/metallb-crds.yaml"}},
	} {
		out, err := helm(append([]string{"template", "fairlead", chart}, m.args...)...)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
		made[name] = append([]byte(m.header), out...)
	}
	return made, nil
}
