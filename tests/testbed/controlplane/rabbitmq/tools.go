//go:build tools

// Package tools pins the cluster operator of RabbitMQ, a published operator that a live test runs unchanged.
package tools

import _ "github.com/rabbitmq/cluster-operator/v2"
