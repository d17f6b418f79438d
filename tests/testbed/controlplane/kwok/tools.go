//go:build tools

// Package tools pins kwok, the fake kubelet that the live tests run.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
