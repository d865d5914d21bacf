{{/* The release's own name: "fairlead", or "<release>-fairlead". */}}
{{- define "fairlead.releaseName" -}}
{{- if contains "fairlead" .Release.Name }}{{ .Release.Name | trunc 44 }}{{ else }}{{ .Release.Name | trunc 35 }}-fairlead{{ end }}
{{- end }}

{{/*
Whose names the release has: a row of files/names.yaml. MetalLB's where the release is
in the namespace in which MetalLB's objects count, or has its labels.
*/}}
{{- define "fairlead.replaces" -}}
{{- if .Values.cloudscale.names }}cloudscale
{{- else if include "fairlead.outside" . }}cloudsigma
{{- else if .Values.kubeVip.names }}kubeVip
{{- else if or .Values.metallb.labels (eq .Release.Namespace (include "fairlead.metallbNamespace" .)) }}metallb
{{- else }}fairlead
{{- end }}
{{- end }}

{{/* That row, with what it does not say from the first one. */}}
{{- define "fairlead.names" -}}
{{- $table := .Files.Get "files/names.yaml" | fromYaml }}
{{- merge (index $table (include "fairlead.replaces" .)) $table.fairlead | toYaml | replace "NAME" (include "fairlead.releaseName" .) | replace "CLUSTER" .Values.clusterName }}
{{- end }}
{{- define "fairlead.name" -}}
{{ (include "fairlead.names" . | fromYaml).name }}
{{- end }}

{{/* Labels that never change: what selectors use. */}}
{{- define "fairlead.selector" -}}
{{- with (include "fairlead.names" . | fromYaml).labels -}}
{{ toYaml . }}
{{- else -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end }}
{{- end }}

{{- define "fairlead.labels" -}}
{{- with (include "fairlead.names" . | fromYaml).labels }}
{{- toYaml . }}
{{ end -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The agents. */}}
{{- define "fairlead.agentSelector" -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ (include "fairlead.names" . | fromYaml).agent }}
{{- end }}

{{- define "fairlead.agentLabels" -}}
{{ include "fairlead.agentSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The image. With a digest, the tag is for people: it is there if it was set. */}}
{{- define "fairlead.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* "true" if no registry has the image: nobody can own a name under .invalid. */}}
{{- define "fairlead.imageIsLocal" -}}
{{- if hasPrefix "fairlead.invalid/" .Values.image.repository }}true{{ end }}
{{- end }}

{{- define "fairlead.pullPolicy" -}}
{{ .Values.image.pullPolicy | default (ternary "Never" "IfNotPresent" (eq (include "fairlead.imageIsLocal" .) "true")) }}
{{- end }}

{{/* What "kubectl describe pod" shows above the event that the image is not there. */}}
{{- define "fairlead.imageHint" -}}
{{- if include "fairlead.imageIsLocal" . }}
fairlead.io/image: "No registry has this image. Build it, then push it and set image.repository, or load it into the nodes: docs/guides/install.md#the-image"
{{- end }}
{{- end }}

{{/* Ports: a DaemonSet's are ports of the node, where 8081 and 8443 are popular. */}}
{{- define "fairlead.healthPort" -}}
{{ .Values.controller.healthPort | default (ternary 17081 8081 (eq .Values.controller.kind "DaemonSet")) }}
{{- end }}
{{- define "fairlead.metricsPort" -}}
{{ .Values.controller.metricsPort | default (ternary 17443 8443 (eq .Values.controller.kind "DaemonSet")) }}
{{- end }}

{{- define "fairlead.pagePort" -}}
{{ .Values.page.port | default (ternary 17445 8444 (eq .Values.controller.kind "DaemonSet")) }}
{{- end }}

{{/* The cloud whose controller manager this is, or "". */}}
{{- define "fairlead.cloud" -}}
{{- if .Values.cloudscale.enabled }}cloudscale{{ else if .Values.cloudsigma.enabled }}cloudsigma{{ end }}
{{- end }}

{{/* "true" if another cluster than the one of the release is served. */}}
{{- define "fairlead.outside" -}}
{{- if and .Values.cloudsigma.enabled .Values.cloudsigma.tenantKubeconfig.secret }}true{{ end }}
{{- end }}

{{/* "true" if each node runs an agent: for addresses that agents announce. */}}
{{- define "fairlead.agents" -}}
{{- if not (include "fairlead.outside" .) }}
{{- if include "fairlead.announces" . }}true{{ else if and .Values.cloudsigma.enabled (not .Values.cloudsigma.pods) }}true{{ end }}
{{- end }}
{{- end }}

{{/* "true" if the release has agents, and its controller is elsewhere. */}}
{{- define "fairlead.agentsOnly" -}}
{{- if and (include "fairlead.agents" .) .Values.agent.enabled (eq .Values.controller.kind "Deployment") (eq (int .Values.controller.replicas) 0) }}true{{ end }}
{{- end }}

{{/* Refuses values of CloudSigma that do not go together. */}}
{{- define "fairlead.checkCloudSigma" -}}
{{- $sigma := .Values.cloudsigma }}
{{- if and $sigma.enabled .Values.cloudscale.enabled }}
{{- fail "cloudscale.enabled and cloudsigma.enabled are both set: nodes are servers of one cloud only. Set one of them." }}
{{- end }}
{{- if and $sigma.enabled .Values.metallb.labels }}
{{- fail "metallb.labels and cloudsigma.enabled are both set: both set the label app of agents. Set one of them." }}
{{- end }}
{{- if and $sigma.enabled (eq $sigma.credentials "impersonation") (not $sigma.userEmail) }}
{{- fail "cloudsigma.credentials is impersonation, but cloudsigma.userEmail is not set: the service account acts for that user." }}
{{- end }}
{{- if and $sigma.pods .Values.agent.enabled (include "fairlead.announces" .) (not (include "fairlead.outside" .)) }}
{{- fail "cloudsigma.pods is set, but agents are installed for other classes: they carry CloudSigma's addresses as well. Remove cloudsigma.pods." }}
{{- end }}
{{- if include "fairlead.outside" . }}
{{- if not .Values.clusterName }}
{{- fail "cloudsigma.tenantKubeconfig.secret is set, but clusterName is not: the Deployment is called csccm-<clusterName>." }}
{{- end }}
{{- if ne .Values.controller.kind "Deployment" }}
{{- fail "cloudsigma.tenantKubeconfig.secret is set: the controller of another cluster is a Deployment. Remove controller.kind." }}
{{- end }}
{{- end }}
{{- end }}

{{/* The Secret with the credentials of CloudSigma, and the key of what must be kept secret. */}}
{{- define "fairlead.cloudsigmaSecret" -}}
{{ .Values.cloudsigma.secret | default (ternary "cloudsigma-impersonation" "cloudsigma-credentials" (eq .Values.cloudsigma.credentials "impersonation")) }}
{{- end }}
{{- define "fairlead.cloudsigmaKey" -}}
{{ ternary "client-secret" .Values.cloudsigma.credentials (eq .Values.cloudsigma.credentials "impersonation") }}
{{- end }}

{{/* Environment of the controller on CloudSigma. */}}
{{- define "fairlead.cloudsigmaEnv" -}}
{{- $sigma := .Values.cloudsigma }}
{{- $secret := include "fairlead.cloudsigmaSecret" . }}
{{- $from := dict }}
{{- if $sigma.region }}
- name: CLOUDSIGMA_REGION
  value: {{ $sigma.region | quote }}
{{- else }}{{ $_ := set $from "CLOUDSIGMA_REGION" "region" }}
{{- end }}
{{- if not .Values.clusterName }}{{ $_ := set $from "CLUSTER_NAME" "cluster-name" }}
{{- end }}
{{- with $sigma.apiEndpoint }}
- name: CLOUDSIGMA_API_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- if eq $sigma.credentials "password" }}{{ $_ := set $from "CLOUDSIGMA_USERNAME" "username" }}
{{- else if eq $sigma.credentials "impersonation" }}
{{- $_ := set $from "CLOUDSIGMA_OAUTH_URL" "oauth-url" }}
{{- $_ := set $from "CLOUDSIGMA_CLIENT_ID" "client-id" }}
- name: CLOUDSIGMA_USER_EMAIL
  value: {{ $sigma.userEmail | quote }}
{{- end }}
{{- range $name, $key := $from }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret }}
      key: {{ $key }}
{{- end }}
# A file, not a variable: a new one counts without a restart.
- name: {{ ternary "CLOUDSIGMA_TOKEN_FILE" (ternary "CLOUDSIGMA_CLIENT_SECRET_FILE" "CLOUDSIGMA_PASSWORD_FILE" (eq $sigma.credentials "impersonation")) (eq $sigma.credentials "token") }}
  value: /etc/cloudsigma/{{ include "fairlead.cloudsigmaKey" . }}
{{- end }}

{{/*
"true" if addresses from pools are announced: unless there is nothing but a cloud or
OVN, or kube-vip announces. Refuses what does not go together.
*/}}
{{- define "fairlead.announces" -}}
{{- $cloud := include "fairlead.cloud" . }}
{{- $announces := not (or $cloud .Values.kubeVip.provider (and .Values.ovn.enabled (not .Values.loadBalancerClass))) }}
{{- range .Values.classes }}
{{- if eq (.backend | default "announce") "announce" }}
{{- $announces = true }}
{{- else if and (has .backend (list "cloudscale" "cloudsigma")) (ne .backend $cloud) }}
{{- fail (printf "The class %q has the backend %s, but %s.enabled is not set." .name .backend .backend) }}
{{- else if and (eq .backend "ovn") (not $.Values.ovn.enabled) }}
{{- fail (printf "The class %q has the backend ovn, but ovn.enabled is not set." .name) }}
{{- end }}
{{- end }}
{{- if and .Values.classes (not $cloud) (eq (include "fairlead.onlyKubeVipClasses" .) "true") }}
{{- $announces = false }}
{{- end }}
{{- if and $cloud .Values.loadBalancerClass }}
{{- fail (printf "loadBalancerClass and %s.enabled are both set: loadBalancerClass is for addresses from pools alone. List what is served in classes." $cloud) }}
{{- end }}
{{- if and .Values.kubeVip.provider (or $cloud .Values.classes .Values.ovn.enabled) }}
{{- fail (printf "kubeVip.provider is set, and so is classes or %s.enabled: kubeVip.provider is for a release that is nothing else. List what is served in classes; one with the backend kube-vip leaves announcing to kube-vip." ($cloud | default (ternary "ovn" "cloudscale" .Values.ovn.enabled))) }}
{{- end }}
{{- if and .Values.cloudscale.names (or $announces (ne .Values.controller.kind "DaemonSet") (ne .Release.Namespace "kube-system")) }}
{{- fail "cloudscale.names is set: that is for a release in the namespace kube-system, with cloudscale.enabled, controller.kind DaemonSet, and no classes that are announced." }}
{{- end }}
{{- if and .Values.kubeVip.names (or (not .Values.kubeVip.provider) (ne .Values.controller.kind "Deployment") (ne .Release.Namespace "kube-system")) }}
{{- fail "kubeVip.names is set: that is for a release in the namespace kube-system, with kubeVip.provider and controller.kind Deployment." }}
{{- end }}
{{- if and .Values.kubeVip.env (not $announces) }}
{{- fail "kubeVip.env is set, but nothing is announced here: it is the environment of kube-vip's own DaemonSet, in whose place the agents are." }}
{{- end }}
{{- range .Values.kubeVip.env }}
{{- if and (hasPrefix "lb_class_" .name) (or $.Values.classes $.Values.loadBalancerClass) }}
{{- fail (printf "kubeVip.env has %s, and classes or loadBalancerClass is set, too: set one of them, for both say which Services are served." .name) }}
{{- end }}
{{- end }}
{{- if $announces }}true{{ end }}
{{- end }}

{{/* "true" if all classes have load balancers on OVN's routers. */}}
{{- define "fairlead.onlyOvnClasses" -}}
{{- $only := "true" }}
{{- range .Values.classes }}
{{- if ne (.backend | default "announce") "ovn" }}{{ $only = "" }}{{ end }}
{{- end }}
{{- $only }}
{{- end }}

{{/* "true" if any Services get addresses that kube-ovn allocates. */}}
{{- define "fairlead.eips" -}}
{{- $eips := and .Values.ovn.enabled (not .Values.classes) }}
{{- range .Values.classes }}
{{- if and (eq (.backend | default "announce") "ovn") (not .pools) }}{{ $eips = true }}{{ end }}
{{- end }}
{{- if $eips }}true{{ end }}
{{- end }}

{{/* Refuses values of OVN that do not go together. */}}
{{- define "fairlead.checkOvn" -}}
{{- if .Values.ovn.enabled }}
{{- if and (include "fairlead.cloud" .) (not .Values.classes) }}
{{- fail (printf "ovn.enabled and %s.enabled are both set: Services without a class can only belong to one. List what is served in classes." (include "fairlead.cloud" .)) }}
{{- end }}
{{- $has := not .Values.classes }}
{{- range .Values.classes }}
{{- if eq (.backend | default "announce") "ovn" }}{{ $has = true }}
{{- if and $.Values.loadBalancerClass (eq .name $.Values.loadBalancerClass) }}
{{- fail (printf "The class %q has the backend ovn, but it is loadBalancerClass, too: choose another class for one of them." .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- if not $has }}
{{- fail "ovn.enabled is set, but no class has the backend ovn. Add one to classes, or remove ovn.enabled." }}
{{- end }}
{{- end }}
{{- end }}

{{/* "true" if all classes leave announcing to kube-vip. */}}
{{- define "fairlead.onlyKubeVipClasses" -}}
{{- $only := true }}
{{- range .Values.classes }}
{{- if ne (.backend | default "announce") "kube-vip" }}{{ $only = false }}{{ end }}
{{- end }}
{{- $only }}
{{- end }}

{{/* "true" if any Services get addresses that kube-vip announces. */}}
{{- define "fairlead.provides" -}}
{{- $provides := .Values.kubeVip.provider }}
{{- range .Values.classes }}
{{- if eq (.backend | default "announce") "kube-vip" }}{{ $provides = true }}{{ end }}
{{- end }}
{{- if $provides }}true{{ end }}
{{- end }}

{{/* "true" if any Services may have addresses of the kinds Pool or IPAddressPool. */}}
{{- define "fairlead.kinds" -}}
{{- $kinds := include "fairlead.announces" . }}
{{- range .Values.classes }}
{{- if or (has "native" (.pools | default list)) (has "metallb" (.pools | default list)) }}{{ $kinds = "true" }}{{ end }}
{{- end }}
{{- $kinds }}
{{- end }}

{{/* "true" if any Services may have addresses of the ConfigMap of kube-vip's cloud provider. */}}
{{- define "fairlead.readsKubeVip" -}}
{{- $reads := or (include "fairlead.provides" .) (and (include "fairlead.announces" .) (not .Values.classes) (not .Values.loadBalancerClass)) }}
{{- range .Values.classes }}
{{- if or (has "kube-vip" (.pools | default list)) (and (has (.backend | default "announce") (list "announce" "kube-vip")) (not .pools)) }}{{ $reads = "true" }}{{ end }}
{{- end }}
{{- if $reads }}true{{ end }}
{{- end }}

{{/* That ConfigMap. */}}
{{- define "fairlead.kubeVipNamespace" -}}
{{ .Values.kubeVip.namespace | default "kube-system" }}
{{- end }}
{{- define "fairlead.kubeVipConfigMap" -}}
{{ .Values.kubeVip.configMap | default "kubevip" }}
{{- end }}
{{- define "fairlead.kubeVipMap" -}}
{{- if include "fairlead.readsKubeVip" . }}
- name: KUBEVIP_NAMESPACE
  value: {{ include "fairlead.kubeVipNamespace" . }}
- name: KUBEVIP_CONFIG_MAP
  value: {{ include "fairlead.kubeVipConfigMap" . }}
{{- end }}
{{- end }}

{{/*
The Lease of the leader. Where there is nothing but a cloud, or nothing but kube-vip's
cloud provider, it is the one that the other controllers of that kind use: two of
them never work at the same time.
*/}}
{{- define "fairlead.ownLease" -}}
{{ if not (or .Values.kubeVip.provider (and (include "fairlead.cloud" .) (not (include "fairlead.agents" .)))) }}true{{ end }}
{{- end }}
{{- define "fairlead.lease" -}}
{{- $row := "cloudscale" }}
{{- if include "fairlead.ownLease" . }}{{ $row = "fairlead" }}{{ else if .Values.kubeVip.provider }}{{ $row = "kubeVip" }}{{ end }}
{{- (index (.Files.Get "files/names.yaml" | fromYaml) $row).lease }}
{{- end }}
{{- define "fairlead.leaseNamespace" -}}
{{ if include "fairlead.ownLease" . }}{{ .Release.Namespace }}{{ else }}kube-system{{ end }}
{{- end }}

{{/* Which classes are served, and where MetalLB's objects are: flags of both daemons. */}}
{{- define "fairlead.classFlags" -}}
{{- if and .Values.loadBalancerClass .Values.classes (not (include "fairlead.onlyOvnClasses" .)) }}
{{- fail "loadBalancerClass and classes are both set: loadBalancerClass is the one class that is served from pools, classes lists several. Set one of them, or only classes with the backend ovn." }}
{{- end }}
{{- if and .Values.loadBalancerClass (not .Values.kubeVip.provider) }}
- --lb-class={{ .Values.loadBalancerClass }}
{{- end }}
{{- if include "fairlead.kinds" . }}
- --metallb-namespace={{ include "fairlead.metallbNamespace" . }}
{{- end }}
{{- end }}
{{- define "fairlead.metallbNamespace" -}}
{{ .Values.metallb.namespace | default (ternary .Release.Namespace "metallb-system" (ne .Values.loadBalancerClass "")) }}
{{- end }}

{{/* "true" if agents serve metrics on a port of their nodes. */}}
{{- define "fairlead.agentMetrics" -}}
{{- if and (include "fairlead.agents" .) .Values.agent.enabled .Values.agent.metricsPort }}true{{ end }}
{{- end }}

{{/* How a monitor reads /metrics, of (root, interval, whether with the token of the Secret). */}}
{{- define "fairlead.scrape" -}}
scheme: https
interval: {{ index . 1 }}
# Labels such as node are those of the metric, as in MetalLB's monitors.
honorLabels: true
{{- if index . 2 }}
authorization:
  credentials:
    name: {{ include "fairlead.name" (index . 0) }}-metrics
    key: token
{{- else }}
bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
{{- end }}
# The certificate is made anew at each start and signed by nobody.
tlsConfig:
  insecureSkipVerify: true
{{- end }}

{{/* Names the node of an agent's metrics. */}}
{{- define "fairlead.nodeLabel" -}}
- sourceLabels: [__meta_kubernetes_pod_node_name]
  targetLabel: node
{{- end }}

{{/* Secrets for pulling the image, by name or as objects with a name. */}}
{{- define "fairlead.imagePullSecrets" -}}
{{- range .Values.imagePullSecrets }}
- name: {{ if kindIs "string" . }}{{ . }}{{ else }}{{ .name }}{{ end }}
{{- end }}
{{- end }}

{{/*
Labels or annotations of pods that the user adds to ours, of (value's name, those of the
user, ours). Ours cannot be changed: selectors and upgrades depend on them.
*/}}
{{- define "fairlead.added" -}}
{{- $name := index . 0 }}
{{- $ours := index . 2 | fromYaml }}
{{- range $key, $_ := index . 1 }}
{{- if hasKey $ours $key }}
{{- fail (printf "%s has %s, which the chart sets itself. Remove it." $name $key) }}
{{- end }}
{{- end }}
{{- toYaml (index . 1) }}
{{- end }}

{{/* The other release that a CRD belongs to, as "NAME in namespace NAMESPACE", or "". */}}
{{- define "fairlead.crdOwner" -}}
{{- $root := index . 0 }}
{{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" (index . 1) }}
{{- $annotations := dig "metadata" "annotations" dict $crd }}
{{- $name := get $annotations "meta.helm.sh/release-name" }}
{{- $namespace := get $annotations "meta.helm.sh/release-namespace" }}
{{- if and $name (or (ne $name $root.Release.Name) (ne $namespace $root.Release.Namespace)) }}{{ $name }} in namespace {{ $namespace }}{{ end }}
{{- end }}
