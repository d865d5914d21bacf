{{/*
The name of everything in the release: "fairlead", or "<release>-fairlead"; or that
of cloudscale's own controller.
*/}}
{{- define "fairlead.name" -}}
{{- if .Values.cloudscale.names }}cloudscale-cloud-controller-manager{{ else if contains "fairlead" .Release.Name }}{{ .Release.Name | trunc 44 }}{{ else }}{{ .Release.Name | trunc 35 }}-fairlead{{ end }}
{{- end }}

{{/* What else is called otherwise in cloudscale's manifest. */}}
{{- define "fairlead.controllerName" -}}
{{ include "fairlead.name" . }}{{ if not .Values.cloudscale.names }}-controller{{ end }}
{{- end }}
{{- define "fairlead.accountName" -}}
{{ if .Values.cloudscale.names }}cloud-controller-manager{{ else }}{{ include "fairlead.name" . }}{{ end }}
{{- end }}
{{- define "fairlead.roleName" -}}
{{ if .Values.cloudscale.names }}system:cloud-controller-manager{{ else }}{{ include "fairlead.name" . }}{{ end }}
{{- end }}

{{/* Labels that never change: what selectors use. */}}
{{- define "fairlead.selector" -}}
{{- if .Values.cloudscale.names -}}
k8s-app: cloudscale-cloud-controller-manager
{{- else -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end }}
{{- end }}

{{- define "fairlead.labels" -}}
{{- if .Values.cloudscale.names -}}
k8s-app: cloudscale-cloud-controller-manager
{{ end -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The agents: their component is called what MetalLB's people look for. */}}
{{- define "fairlead.agentSelector" -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: speaker
{{- end }}

{{- define "fairlead.agentLabels" -}}
{{ include "fairlead.agentSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Ports: a DaemonSet's are ports of the node, where 8081 and 8443 are popular. */}}
{{- define "fairlead.healthPort" -}}
{{ .Values.controller.healthPort | default (ternary 17081 8081 (eq .Values.controller.kind "DaemonSet")) }}
{{- end }}
{{- define "fairlead.metricsPort" -}}
{{ .Values.controller.metricsPort | default (ternary 17443 8443 (eq .Values.controller.kind "DaemonSet")) }}
{{- end }}

{{/*
"true" if addresses from pools are announced: unless there is nothing but a cloud.
Refuses what does not go together.
*/}}
{{- define "fairlead.announces" -}}
{{- $cloud := .Values.cloudscale }}
{{- $announces := not $cloud.enabled }}
{{- range .Values.classes }}
{{- if ne .backend "cloudscale" }}
{{- $announces = true }}
{{- else if not $cloud.enabled }}
{{- fail (printf "The class %q has the backend cloudscale, but cloudscale.enabled is not set." .name) }}
{{- end }}
{{- end }}
{{- if and $cloud.enabled .Values.loadBalancerClass }}
{{- fail "loadBalancerClass and cloudscale.enabled are both set: loadBalancerClass is for announced addresses alone. List what is served in classes." }}
{{- end }}
{{- if and $cloud.names (or $announces (ne .Values.controller.kind "DaemonSet") (ne .Release.Namespace "kube-system")) }}
{{- fail "cloudscale.names is set: that is for a release in the namespace kube-system, with cloudscale.enabled, controller.kind DaemonSet, and no classes that are announced." }}
{{- end }}
{{- if $announces }}true{{ end }}
{{- end }}

{{/*
The Lease of the leader. Where there is nothing but a cloud it is the one that all
cloud controller managers use: two of them never work at the same time.
*/}}
{{- define "fairlead.lease" -}}
{{ if include "fairlead.announces" . }}fairlead-controller{{ else }}cloud-controller-manager{{ end }}
{{- end }}
{{- define "fairlead.leaseNamespace" -}}
{{ if include "fairlead.announces" . }}{{ .Release.Namespace }}{{ else }}kube-system{{ end }}
{{- end }}

{{/* Which classes are served, and where MetalLB's objects are: flags of both daemons. */}}
{{- define "fairlead.classFlags" -}}
{{- if and .Values.loadBalancerClass .Values.classes }}
{{- fail "loadBalancerClass and classes are both set: loadBalancerClass is the one class that is served, classes lists several. Set one of them." }}
{{- end }}
{{- with .Values.loadBalancerClass }}
- --lb-class={{ . }}
{{- end }}
{{- if include "fairlead.announces" . }}
- --metallb-namespace={{ include "fairlead.metallbNamespace" . }}
{{- end }}
{{- end }}
{{- define "fairlead.metallbNamespace" -}}
{{ .Values.metallb.namespace | default (ternary .Release.Namespace "metallb-system" (ne .Values.loadBalancerClass "")) }}
{{- end }}
