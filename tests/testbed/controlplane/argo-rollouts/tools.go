//go:build tools

// Package tools pins the controller of Argo Rollouts, a published operator that a live test runs unchanged.
package tools

import _ "github.com/argoproj/argo-rollouts/cmd/rollouts-controller"
