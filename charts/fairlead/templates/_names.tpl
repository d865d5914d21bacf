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
{{- else if .Values.kubeVip.names }}kubeVip
{{- else if or .Values.metallb.labels (eq .Release.Namespace (include "fairlead.metallbNamespace" .)) }}metallb
{{- else }}fairlead
{{- end }}
{{- end }}

{{/* That row, with what it does not say from the first one. */}}
{{- define "fairlead.names" -}}
{{- $table := .Files.Get "files/names.yaml" | fromYaml }}
{{- merge (index $table (include "fairlead.replaces" .)) $table.fairlead | toYaml | replace "NAME" (include "fairlead.releaseName" .) }}
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

{{/*
"true" if addresses from pools are announced: unless there is nothing but a cloud, or
kube-vip announces. Refuses what does not go together.
*/}}
{{- define "fairlead.announces" -}}
{{- $cloud := .Values.cloudscale }}
{{- $announces := not (or $cloud.enabled .Values.kubeVip.provider) }}
{{- range .Values.classes }}
{{- if eq (.backend | default "announce") "announce" }}
{{- $announces = true }}
{{- else if and (eq .backend "cloudscale") (not $cloud.enabled) }}
{{- fail (printf "The class %q has the backend cloudscale, but cloudscale.enabled is not set." .name) }}
{{- end }}
{{- end }}
{{- if and .Values.classes (not $cloud.enabled) (eq (include "fairlead.onlyKubeVipClasses" .) "true") }}
{{- $announces = false }}
{{- end }}
{{- if and $cloud.enabled .Values.loadBalancerClass }}
{{- fail "loadBalancerClass and cloudscale.enabled are both set: loadBalancerClass is for addresses from pools alone. List what is served in classes." }}
{{- end }}
{{- if and .Values.kubeVip.provider (or $cloud.enabled .Values.classes) }}
{{- fail "kubeVip.provider is set, and so is classes or cloudscale.enabled: kubeVip.provider is for a release that is nothing else. List what is served in classes; one with the backend kube-vip leaves announcing to kube-vip." }}
{{- end }}
{{- if and $cloud.names (or $announces (ne .Values.controller.kind "DaemonSet") (ne .Release.Namespace "kube-system")) }}
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
{{- if and (ne (.backend | default "announce") "cloudscale") (or (not .pools) (has "kube-vip" .pools)) }}{{ $reads = "true" }}{{ end }}
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
{{ if not (or .Values.kubeVip.provider (and .Values.cloudscale.enabled (not (include "fairlead.announces" .)))) }}true{{ end }}
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
{{- if and .Values.loadBalancerClass .Values.classes }}
{{- fail "loadBalancerClass and classes are both set: loadBalancerClass is the one class that is served, classes lists several. Set one of them." }}
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
