//go:build tools

// Package tools pins the Prometheus Operator, a published operator that a live test runs unchanged.
package tools

import _ "github.com/prometheus-operator/prometheus-operator/cmd/operator"
