//go:build tools

// Package tools pins kro, a published operator that a live test runs unchanged.
package tools

import _ "github.com/kubernetes-sigs/kro/cmd/controller"
