//go:build tools

// Package tools pins the Helm 4 with which a live test installs the chart of deploy/.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
