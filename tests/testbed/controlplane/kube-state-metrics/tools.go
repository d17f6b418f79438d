//go:build tools

// Package tools pins kube-state-metrics, which the benchmarks compare with.
package tools

import _ "k8s.io/kube-state-metrics/v2"
