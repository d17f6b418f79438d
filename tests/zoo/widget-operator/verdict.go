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

// verdict is the result of a reconcile, before a style turns it into a status.
type verdict struct {
	generation int64
	phase      string

	// ready is "True", "False" or "Unknown".
	ready, reason, message string

	// progressing is true while the operator still works on the object.
	progressing bool

	// stalled is true if the object makes no more progress without a new spec.
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

// progress records how far the operator got with each object. A restart loses it, as in any operator.
type progress struct {
	mu    sync.Mutex
	known map[types.NamespacedName]*attempt

	// first holds the UIDs that the operator keeps because of the fault OwnerReplaced.
	first map[types.NamespacedName]types.UID
}

// attempt is the work on one spec of one object.
type attempt struct {
	uid   types.UID
	spec  string
	since time.Time

	// settled is true once the object has been ready with this spec.
	settled bool

	// rejected is true if an earlier spec was invalid and the object has not been ready since.
	rejected bool
}

func newProgress() *progress {
	return &progress{known: map[types.NamespacedName]*attempt{}, first: map[types.NamespacedName]types.UID{}}
}

// on returns the attempt at the object's current spec. It calls settled only when it sees the object for the first
// time.
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

// uid returns the object's UID, or, if it is to be kept, the UID of the first object of that name.
func (p *progress) uid(o *unstructured.Unstructured, keep bool) types.UID {
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	p.mu.Lock()
	defer p.mu.Unlock()
	if first, seen := p.first[key]; seen && keep {
		return first
	}
	delete(p.first, key)
	if keep {
		p.first[key] = o.GetUID()
	}
	return o.GetUID()
}

func (p *progress) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, key)
}
