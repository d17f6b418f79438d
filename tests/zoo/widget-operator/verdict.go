package main

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// The phases of an object, for the kinds that have one.
const (
	phasePending      = "Pending"
	phaseProvisioning = "Provisioning"
	phaseValidating   = "Validating"
	phaseReady        = "Ready"
	phaseDegraded     = "Degraded"
	phaseFailed       = "Failed"
	phaseDeleting     = "Deleting"
	phaseRunning      = "Running"
	phaseSucceeded    = "Succeeded"
)

// verdict is what the operator has to say about one object, before a style gives it a form.
type verdict struct {
	generation int64
	phase      string

	// ready is "True", "False" or "Unknown".
	ready, reason, message string

	// progressing says that the operator is still at work on it.
	progressing bool

	// stalled says that it will not get further without a new spec.
	stalled bool

	replicas, readyReplicas int64
	selector                string
}

func (v *verdict) working(phase, reason, message string) {
	v.phase, v.ready, v.reason, v.message, v.progressing = phase, "False", reason, message, true
}

func (v *verdict) succeeded() {
	v.phase, v.ready, v.reason, v.message, v.progressing = phaseReady, "True", "Available", "everything is as the spec says", false
}

func (v *verdict) degraded(reason, message string) {
	v.phase, v.ready, v.reason, v.message, v.progressing = phaseDegraded, "False", reason, message, false
}

func (v *verdict) rejected(message string) {
	v.phase, v.ready, v.reason, v.message, v.progressing = phaseFailed, "False", reasonInvalid, message, false
	v.stalled = true
}

const reasonInvalid = "InvalidSpec"

// progress remembers how far the operator got with each object. It is lost on a restart, as in any operator.
type progress struct {
	mu    sync.Mutex
	known map[types.NamespacedName]*attempt
}

// attempt is the work on one spec of one object.
type attempt struct {
	uid   types.UID
	spec  string
	since time.Time

	// settled says that this spec was reached once.
	settled bool

	// rejected says that an earlier spec was invalid and none was reached since.
	rejected bool
}

func newProgress() *progress {
	return &progress{known: map[types.NamespacedName]*attempt{}}
}

// on returns the attempt at the object's present spec; settled is asked only when the object is seen for the first time.
func (p *progress) on(o *unstructured.Unstructured, spec string, settled func() bool) *attempt {
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	p.mu.Lock()
	defer p.mu.Unlock()
	a, seen := p.known[key]
	switch {
	case !seen || a.uid != o.GetUID():
		a = &attempt{uid: o.GetUID(), spec: spec, since: time.Now(), settled: settled()}
		p.known[key] = a
	case a.spec != spec:
		a.spec, a.since, a.settled = spec, time.Now(), false
	}
	return a
}

func (p *progress) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, key)
}
