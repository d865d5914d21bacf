{{/* The name of everything in the release: "fairlead", or "<release>-fairlead". */}}
{{- define "fairlead.name" -}}
{{- if contains "fairlead" .Release.Name }}{{ .Release.Name | trunc 44 }}{{ else }}{{ .Release.Name | trunc 35 }}-fairlead{{ end }}
{{- end }}

{{/* Labels that never change: what selectors use. */}}
{{- define "fairlead.selector" -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end }}

{{- define "fairlead.labels" -}}
{{ include "fairlead.selector" . }}
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

{{/* Which classes are served, and where MetalLB's objects are: flags of both daemons. */}}
{{- define "fairlead.classFlags" -}}
{{- if and .Values.loadBalancerClass .Values.classes }}
{{- fail "loadBalancerClass and classes are both set: loadBalancerClass is the one class that is served, classes lists several. Set one of them." }}
{{- end }}
{{- with .Values.loadBalancerClass }}
- --lb-class={{ . }}
{{- end }}
- --metallb-namespace={{ include "fairlead.metallbNamespace" . }}
{{- end }}
{{- define "fairlead.metallbNamespace" -}}
{{ .Values.metallb.namespace | default (ternary .Release.Namespace "metallb-system" (ne .Values.loadBalancerClass "")) }}
{{- end }}
