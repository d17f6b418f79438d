module github.com/loopwatch/loopwatch/tests/testbed/controlplane/jaeger

go 1.24.0

require github.com/jaegertracing/jaeger v1.62.0
