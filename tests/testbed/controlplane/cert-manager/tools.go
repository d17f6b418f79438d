//go:build tools

// Package tools pins the controller of cert-manager, a published operator that the live tests run unchanged. Version
// 1.11 is the last one whose controller is part of the module that the Go module proxy has.
package tools

import _ "github.com/cert-manager/cert-manager/cmd/controller"
