//go:build tools

// Package tools pins the kustomize with which the live tests render what users install.
package tools

import _ "sigs.k8s.io/kustomize/kustomize/v5"
