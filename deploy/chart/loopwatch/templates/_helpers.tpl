{{/* The name of all objects. */}}
{{- define "loopwatch.name" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}
{{- else if contains "loopwatch" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-loopwatch" (.Release.Name | trunc 42 | trimSuffix "-") }}
{{- end }}
{{- end }}

{{/* The labels that select the Pod. */}}
{{- define "loopwatch.selector" -}}
app.kubernetes.io/name: loopwatch
app.kubernetes.io/component: observer
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The labels of the Pod. They contain no version of the chart, because a new one must not restart the Pod by itself. */}}
{{- define "loopwatch.podLabels" -}}
{{ include "loopwatch.selector" . }}
app.kubernetes.io/part-of: loopwatch
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* Fails if a value sets a label or annotation of the chart, which YAML would then have twice. The argument is a dictionary with the name of
the value, its content and the keys of the chart. */}}
{{- define "loopwatch.refuse" -}}
{{- $name := .name }}
{{- $own := .own }}
{{- range $key, $_ := .map }}
{{- if hasKey $own $key }}{{ fail (printf "%s: the chart sets %s itself" $name $key) }}{{ end }}
{{- end }}
{{- end }}

{{/* The labels of all objects. */}}
{{- define "loopwatch.labels" -}}
{{ include "loopwatch.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{/* The name of the ServiceAccount. */}}
{{- define "loopwatch.account" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "loopwatch.name" .) }}
{{- else if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}
{{- else }}{{ fail "serviceAccount.name: name the ServiceAccount that exists, because serviceAccount.create is false" }}
{{- end }}
{{- end }}

{{/* The subject of all bindings. */}}
{{- define "loopwatch.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "loopwatch.account" . | quote }}
    namespace: {{ .Release.Namespace }}
{{- end }}

{{/* The image of the container. */}}
{{- define "loopwatch.image" -}}
{{- with .Values.image -}}
{{- if not .repository }}
{{- fail "image.repository: no image of loopwatch is published. Build one, push it to a registry that the cluster can pull from, and name it: --set image.repository=REGISTRY/loopwatch" }}
{{- end }}
{{- if .digest }}{{ .repository }}@{{ .digest }}
{{- else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end }}
{{- end }}
{{- end }}

{{/* The environment of the container, as a list; empty if no value needs a variable. */}}
{{- define "loopwatch.env" -}}
{{- $env := list }}
{{- if .Values.allOperators.enabled }}
{{- $env = append $env (dict "name" "LOOPWATCH_ALL_OPERATORS" "value" "true") }}
{{- range $variable, $field := dict "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" }}
{{- $env = append $env (dict "name" $variable "valueFrom" (dict "fieldRef" (dict "fieldPath" $field))) }}
{{- end }}
{{- end }}
{{- if .Values.tls.enabled }}
{{- $env = append $env (dict "name" "LOOPWATCH_WEB_CONFIG_FILE" "value" "/etc/loopwatch-web/web.yml") }}
{{- end }}
{{- if .Values.webAuth.enabled }}
{{- $env = append $env (dict "name" "LOOPWATCH_WEB_AUTH" "value" "kubernetes") }}
{{- end }}
{{- with .Values.namespaces }}
{{- $env = append $env (dict "name" "LOOPWATCH_NAMESPACE" "value" (join "," .)) }}
{{- end }}
{{- with .Values.clusterName }}
{{- $env = append $env (dict "name" "LOOPWATCH_ALERT_LABEL" "value" (printf "cluster=%s" .)) }}
{{- $env = append $env (dict "name" "OTEL_RESOURCE_ATTRIBUTES" "value" (printf "k8s.cluster.name=%s" .)) }}
{{- end }}
{{- with .Values.externalUrl }}
{{- $env = append $env (dict "name" "LOOPWATCH_EXTERNAL_URL" "value" .) }}
{{- end }}
{{- with .Values.grafanaUrl }}
{{- $env = append $env (dict "name" "LOOPWATCH_GRAFANA_URL" "value" .) }}
{{- end }}
{{- with .Values.runbookUrl }}
{{- $env = append $env (dict "name" "LOOPWATCH_RUNBOOK_URL" "value" .) }}
{{- end }}
{{- if ne .Values.logFormat "text" }}
{{- $env = append $env (dict "name" "LOOPWATCH_LOG_FORMAT" "value" .Values.logFormat) }}
{{- end }}
{{- /* A list with two entries of one name is refused by server-side apply, so those of the user replace these. */}}
{{- $extra := .Values.extraEnv | default list }}
{{- $replaced := dict }}
{{- range $extra }}{{ $_ := set $replaced .name true }}{{ end }}
{{- $own := list }}
{{- range $env }}{{ if not (hasKey $replaced .name) }}{{ $own = append $own . }}{{ end }}{{ end }}
{{- with concat $own $extra }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* The resources of the container; empty if there are none. With `allOperators`, the default of the memory limit is higher. */}}
{{- define "loopwatch.resources" -}}
{{- $resources := deepCopy (.Values.resources | default dict) }}
{{- $limits := $resources.limits | default dict }}
{{- if and .Values.allOperators.enabled (eq (toString $limits.memory) "128Mi") }}
{{- $_ := set $limits "memory" "256Mi" }}
{{- end }}
{{- with $resources }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* The annotations of the Pod; empty if there are none. */}}
{{- define "loopwatch.podAnnotations" -}}
{{- $own := dict }}
{{- if .Values.scrapeAnnotations.enabled }}
{{- $own = dict "prometheus.io/scrape" "true" "prometheus.io/port" "9917" "prometheus.io/path" "/metrics" }}
{{- if .Values.tls.enabled }}{{ $_ := set $own "prometheus.io/scheme" "https" }}{{ end }}
{{- end }}
{{- if .Values.tls.enabled }}
{{- /* The format of Prometheus' exporters. Names of files are relative to the folder of the file. */}}
{{- $file := merge (dict "tls_server_config" (dict "cert_file" "tls.crt" "key_file" "tls.key")) (deepCopy .Values.tls.webConfig) }}
{{- $_ := set $own "loopwatch/web-config" (printf "%s\n" (toYaml $file)) }}
{{- end }}
{{- include "loopwatch.refuse" (dict "name" "podAnnotations" "map" .Values.podAnnotations "own" $own) }}
{{- with merge $own (.Values.podAnnotations | default dict) }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* One endpoint of a PodMonitor or ServiceMonitor; the argument is the chart and the values of the monitor. */}}
{{- define "loopwatch.endpoint" -}}
{{- $values := .chart.Values -}}
port: loopwatch-http
path: /metrics
interval: {{ .monitor.interval }}
scrapeTimeout: {{ .monitor.scrapeTimeout }}
{{- if $values.tls.enabled }}
scheme: https
tlsConfig:
  serverName: {{ $values.tls.serverName | quote }}
  ca:
    secret:
      name: {{ $values.tls.secretName | quote }}
      key: ca.crt
{{- end }}
{{- if $values.webAuth.enabled }}
authorization:
  credentials:
    name: {{ $values.webAuth.tokenSecret | quote }}
    key: token
{{- end }}
{{- $relabelings := .monitor.relabelings | default list }}
{{- with $values.clusterName }}
{{- $relabelings = prepend $relabelings (dict "targetLabel" "cluster" "replacement" .) }}
{{- end }}
{{- with $relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A PrometheusRule from a file. The argument is a dictionary with the chart, the file, the name and the labels. The template engine never
sees the content of the file, whose annotations are templates of Prometheus. */}}
{{- define "loopwatch.prometheusRule" -}}
{{- $rule := .chart.Files.Get .file | fromYaml }}
{{- if not $rule.spec }}{{ fail (printf "%s: not a PrometheusRule: %v" .file $rule.Error) }}{{ end }}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {{ .name }}
  namespace: {{ .chart.Release.Namespace }}
  labels:
    {{- include "loopwatch.labels" .chart | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- toYaml $rule.spec | nindent 2 }}
{{- end }}
