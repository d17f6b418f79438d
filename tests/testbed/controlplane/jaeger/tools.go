//go:build tools

// Package tools pins Jaeger all-in-one, an OTLP receiver.
package tools

import _ "github.com/jaegertracing/jaeger/cmd/all-in-one"
