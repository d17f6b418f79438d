package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"
)

// faultKind is one way in which the operator can misbehave.
type faultKind struct {
	Name   string `json:"name"`
	Effect string `json:"effect"`

	// Params holds the parameters of the fault and their defaults.
	Params map[string]string `json:"params,omitempty"`

	// OfProcess is true if the fault concerns the whole process and takes no selectors.
	OfProcess bool `json:"ofProcess,omitempty"`
}

// catalog is the one table of faults. A fault of objects has the name of the finding that should report it, except
// FinalizerReleased, which should cause none. Faults of the loop and the process are named after what the operator
// does; CacheGrowth, HeapStep, HeapLinked and HeapWave should cause no finding either, unless the process has a low limit.
var catalog = []faultKind{
	{Name: "Unacknowledged", Effect: "the operator ignores changes and leaves the status alone, including observedGeneration; deletions still work"},
	{Name: "Overdue", Effect: "from the next change: acknowledged, then Ready=False, reason Waiting, Progressing=True, phase Provisioning"},
	{Name: "StatusLag", Effect: "from the next change: the status follows, observedGeneration does not; a new object has none"},
	{Name: "ConditionFlapping", Effect: "on an object that is Ready, Ready is False in every second period (reason ProbeFailed); the phase stays", Params: map[string]string{"period": "1s"}},
	{Name: "HotLoop", Effect: "on an object that is Ready, the operator writes the present time into each condition, and reconciles again after a period", Params: map[string]string{"period": "100ms"}},
	{Name: "WriteFight", Effect: "a second controller (field manager zoo-rival) looks at the objects in each period and sets spec.size to 99; the operator sets it to 5", Params: map[string]string{"period": "500ms"}},
	{Name: "StatusReverted", Effect: "on an object that is Ready, the operator notes a probe in the first condition, with a new time, in every second period, and then writes back the status that it had when the fault began", Params: map[string]string{"period": "1s"}},
	{Name: "UnchangedWrites", Effect: "on an object that is Ready, the operator writes the status back as it is, twenty times in each period", Params: map[string]string{"period": "1s"}},
	{Name: "SilentHotLoop", Effect: "on an object that is Ready, the operator reconciles again after a period, and writes nothing", Params: map[string]string{"period": "100ms"}},
	{Name: "PhaseStuck", Effect: "from the next change: phase Provisioning with Ready=Unknown"},
	{Name: "PhaseCycling", Effect: "the phase goes through Pending, Provisioning and Validating again and again, one in each period, Ready=Unknown", Params: map[string]string{"period": "1s"}},
	{Name: "ConditionMalformed", Effect: "additional conditions: one with status maybe, one without a type, Synced twice, one with status 1 and time 0, a plain string; only for kinds with a list of conditions"},
	{Name: "Regressed", Effect: "an object that was Ready gets Ready=False, reason BackendLost, phase Degraded"},
	{Name: "Failing", Effect: "all objects get Ready=False, reason DependencyUnavailable, phase Degraded, and each reconcile ends in an error"},
	{Name: "ReadyButBroken", Effect: "an object is Ready whether or not its Deployment has Pods"},
	{Name: "NeverRecovered", Effect: "an object whose spec was invalid keeps Ready=False, reason InvalidSpec, after the spec is valid again; the operator acknowledges the generation"},
	{Name: "FinalizerStuck", Effect: "the cleanup ends in an error, phase Deleting, reason CleanupFailed"},
	{Name: "CleanupSlow", Effect: "the cleanup takes longer, phase Deleting, reason CleaningUp, and then succeeds", Params: map[string]string{"delay": "90s"}},
	{Name: "FinalizerLost", Effect: "a second controller (field manager zoo-archiver) wants its finalizer archiver.example.com/copy on each object; it and the operator replace the list of finalizers by their own, whenever that is missing"},
	{Name: "FinalizerFlapping", Effect: "the operator adds its finalizer to a live object and removes it again, one after the other, each after a period", Params: map[string]string{"period": "1s"}},
	{Name: "FinalizerReleased", Effect: "the operator removes its own finalizer from live objects, because there is nothing to clean up; no fault"},
	{Name: "OwnerReplaced", Effect: "the owner references of children have the UID of the first object of that name, also after the object has been deleted and created again"},
	{Name: "CrossNamespaceOwner", Effect: "each object also owns a ConfigMap KIND-NAME-shared in another namespace", Params: map[string]string{"to": "default"}},
	{Name: "StaleConfiguration", Effect: "changes of Secrets and ConfigMaps no longer roll the Deployment"},
	{Name: "Stopped", OfProcess: true, Effect: "every worker of every kind hangs; the process lives, answers its probes and renews its Lease"},

	{Name: "QueueBacklog", Effect: "each reconcile blocks for a delay before it begins, so that objects wait in the queue", Params: map[string]string{"delay": "2s"}},
	{Name: "ReconcileStuck", Effect: "a reconcile hangs without a timeout, and keeps its worker; select one object to lose one worker"},
	{Name: "ReconcileFailing", Effect: "the first attempts to reconcile each object end in an error, or all if attempts is 0; the operator writes nothing", Params: map[string]string{"attempts": "0"}},
	{Name: "ConflictStorm", Effect: "each reconcile updates the object from an old copy, which the API server refuses, and ends in that error"},
	{Name: "ReconcilePanicking", Effect: "each reconcile panics; controller-runtime recovers, counts the panic and tries again"},
	{Name: "TaskLeak", Effect: "each reconcile starts goroutines that do not end", Params: map[string]string{"tasks": "1"}},
	{Name: "CacheGrowth", Effect: "the operator keeps memory for each object that it reconciles until the object is deleted; no fault, because the memory follows the number of objects", Params: map[string]string{"size": "64Ki"}},
	{Name: "Crash", Effect: "the process ends with an error: after a delay, or, with selectors, that long after each reconcile of such an object begins", Params: map[string]string{"delay": "1s"}},

	{Name: "HeapLeak", OfProcess: true, Effect: "the process allocates memory at a rate in bytes per second, and keeps it", Params: map[string]string{"rate": "1Mi"}},
	{Name: "HeapStep", OfProcess: true, Effect: "the process allocates memory once, and keeps it; no leak", Params: map[string]string{"size": "64Mi"}},
	{Name: "HeapLinked", OfProcess: true, Effect: "the process allocates many small objects once, each of which refers to the next, and keeps them; no leak, but each garbage collection takes long", Params: map[string]string{"size": "64Mi"}},
	{Name: "HeapWave", OfProcess: true, Effect: "the memory of the process rises and falls once in each period; no leak", Params: map[string]string{"size": "64Mi", "period": "1m"}},
	{Name: "FileDescriptorLeak", OfProcess: true, Effect: "the process opens one file in each period, and does not close it", Params: map[string]string{"period": "100ms"}},
	{Name: "OutOfMemory", OfProcess: true, Effect: "the process allocates memory of a size within a delay, and then ends with SIGKILL, as the kernel ends it at its limit", Params: map[string]string{"size": "256Mi", "delay": "2s"}},
	{Name: "WebhookSlow", OfProcess: true, Effect: "the admission webhook answers after a delay", Params: map[string]string{"delay": "6s"}},
	{Name: "LeaderFlapping", OfProcess: true, Effect: "the leader releases its Lease in each period and takes it again; if a standby is faster, the former leader ends after the deadline for renewals", Params: map[string]string{"period": "5s"}},
}

// fault is one fault that is on, for the objects that it matches. Empty selectors match everything.
type fault struct {
	Fault     string            `json:"fault"`
	Kind      string            `json:"kind,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name,omitempty"`
	Params    map[string]string `json:"params,omitempty"`
	Since     time.Time         `json:"since"`
}

// newFault checks the query and fills in the defaults.
func newFault(name string, query map[string]string) (fault, error) {
	i := slices.IndexFunc(catalog, func(k faultKind) bool { return k.Name == name })
	if i < 0 {
		return fault{}, fmt.Errorf("no such fault: %q", name)
	}
	f := fault{Fault: name, Params: map[string]string{}, Since: time.Now().UTC()}
	for key, value := range catalog[i].Params {
		f.Params[key] = value
	}
	for key, value := range query {
		switch key {
		case "kind":
			f.Kind = value
		case "namespace":
			f.Namespace = value
		case "name":
			f.Name = value
		default:
			if _, known := f.Params[key]; !known {
				return fault{}, fmt.Errorf("%s takes no parameter %q", name, key)
			}
			f.Params[key] = value
		}
	}
	if catalog[i].OfProcess && f.selective() {
		return fault{}, fmt.Errorf("%s concerns the whole process and takes no selectors", name)
	}
	return f, f.check()
}

func (f fault) check() error {
	for _, name := range []string{"period", "delay"} {
		if value, set := f.Params[name]; set {
			if d, err := time.ParseDuration(value); err != nil || d < 10*time.Millisecond {
				return fmt.Errorf("%s must be a duration of 10ms or more, not %q", name, value)
			}
		}
	}
	for _, name := range []string{"rate", "size"} {
		if value, set := f.Params[name]; set {
			if q, err := resource.ParseQuantity(value); err != nil || q.Value() < 1 || q.Value() > 16<<30 {
				return fmt.Errorf("%s must be a quantity from 1 to 16Gi, not %q", name, value)
			}
		}
	}
	for _, name := range []string{"attempts", "tasks"} {
		if value, set := f.Params[name]; set {
			if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < 0 || n > 1000 {
				return fmt.Errorf("%s must be a number from 0 to 1000, not %q", name, value)
			}
		}
	}
	if to, set := f.Params["to"]; set && to == "" {
		return fmt.Errorf("to must be the name of a namespace")
	}
	if f.Kind != "" && !slices.ContainsFunc(kinds, func(k kind) bool { return k.name == f.Kind }) {
		return fmt.Errorf("no such kind: %q", f.Kind)
	}
	return nil
}

// duration returns the value of a parameter that is a duration.
func (f fault) duration(name string) time.Duration {
	d, err := time.ParseDuration(f.Params[name])
	if err != nil {
		panic(err) // check has already parsed it.
	}
	return d
}

// quantity returns the value of a parameter that is a number of bytes.
func (f fault) quantity(name string) int64 {
	q := resource.MustParse(f.Params[name]) // check has already parsed it.
	return q.Value()
}

// number returns the value of a parameter that is a plain number.
func (f fault) number(name string) int64 {
	n, err := strconv.ParseInt(f.Params[name], 10, 64)
	if err != nil {
		panic(err) // check has already parsed it.
	}
	return n
}

// selective reports whether the fault is limited to some objects.
func (f fault) selective() bool { return f.Kind+f.Namespace+f.Name != "" }

func (f fault) matches(kind, namespace, name string) bool {
	is := func(selector, value string) bool { return selector == "" || selector == value }
	return is(f.Kind, kind) && is(f.Namespace, namespace) && is(f.Name, name)
}

// sameSelectors reports whether two faults select the same objects.
func (f fault) sameSelectors(g fault) bool {
	return f.Kind == g.Kind && f.Namespace == g.Namespace && f.Name == g.Name
}

// registry holds the faults that are on.
type registry struct {
	mu      sync.Mutex
	active  []fault
	changed chan struct{}

	// exit ends the process.
	exit func(code int)
}

func newRegistry() *registry {
	return &registry{changed: make(chan struct{}), exit: exit}
}

// crash ends the process with an error.
func (r *registry) crash(reason string) {
	ctrl.Log.WithName("faults").Info("crash", "reason", reason)
	r.exit(exitFailed)
}

// on returns the narrowest fault of that name that matches the object.
func (r *registry) on(name, kind, namespace, object string) (found fault, on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	best := -1
	for _, f := range r.active {
		if f.Fault != name || !f.matches(kind, namespace, object) {
			continue
		}
		narrow := len(f.Kind) + len(f.Namespace)<<8 + len(f.Name)<<16
		if narrow > best {
			best, found, on = narrow, f, true
		}
	}
	return found, on
}

func (r *registry) stopped() bool {
	_, on := r.on("Stopped", "", "", "")
	return on
}

// put switches a fault on, in place of one with the same name and selectors.
func (r *registry) put(f fault) {
	r.change(func(active []fault) []fault {
		same := func(g fault) bool { return g.Fault == f.Fault && g.sameSelectors(f) }
		return append(slices.DeleteFunc(active, same), f)
	})
}

// remove switches off the faults that match, and returns them.
func (r *registry) remove(match func(fault) bool) []fault {
	removed := []fault{}
	r.change(func(active []fault) []fault {
		var kept []fault
		for _, f := range active {
			if match(f) {
				removed = append(removed, f)
			} else {
				kept = append(kept, f)
			}
		}
		return kept
	})
	return removed
}

func (r *registry) change(with func([]fault) []fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = with(r.active)
	close(r.changed)
	r.changed = make(chan struct{})
}

// has reports whether this very fault is still on.
func (r *registry) has(f fault) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.active, func(g fault) bool {
		return g.Fault == f.Fault && g.sameSelectors(f) && g.Since.Equal(f.Since)
	})
}

func (r *registry) list() []fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]fault{}, r.active...)
}

// waitWhile waits until the condition no longer holds. It returns false if the context ends first.
func (r *registry) waitWhile(ctx context.Context, holds func() bool) bool {
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if !holds() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// pause waits for a time, or until the fault is off or the context ends.
func (r *registry) pause(ctx context.Context, f fault, length time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	r.waitWhile(ctx, func() bool { return r.has(f) })
}
