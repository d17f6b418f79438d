//go:build tools

// Package tools pins prometheus-adapter, which an autoscaler of the live tests asks for metrics.
package tools

import _ "sigs.k8s.io/prometheus-adapter/cmd/adapter"
