package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// faultKind is one way to misbehave.
type faultKind struct {
	Name   string `json:"name"`
	Effect string `json:"effect"`

	// Params names the parameters it takes and their defaults.
	Params map[string]string `json:"params,omitempty"`
}

// catalog holds every fault, named after the finding that should tell of it.
var catalog = []faultKind{
	{Name: "Unacknowledged", Effect: "changes are not acted upon and the status stays as it is"},
	{Name: "Overdue", Effect: "changes are acknowledged but never done: Ready=False, reason Waiting"},
	{Name: "StatusLag", Effect: "the status follows a change but its observedGeneration does not"},
	{Name: "ConditionFlapping", Effect: "Ready goes False and True again in every other period", Params: map[string]string{"period": "1s"}},
	{Name: "PhaseStuck", Effect: "changes end in phase Provisioning with Ready=Unknown"},
	{Name: "PhaseCycling", Effect: "the phase goes round Pending, Provisioning, Validating, one in each period", Params: map[string]string{"period": "1s"}},
	{Name: "ConditionMalformed", Effect: "conditions that no convention allows are added", Params: map[string]string{"what": "all"}},
	{Name: "Regressed", Effect: "Ready goes False without a change of the spec, and stays"},
	{Name: "Failing", Effect: "the backend is down: every object goes Ready=False, reason DependencyUnavailable, and reconciles fail"},
	{Name: "NeverRecovered", Effect: "an object whose spec was invalid stays rejected when the spec is good again"},
	{Name: "FinalizerStuck", Effect: "cleaning up fails for ever"},
	{Name: "CleanupSlow", Effect: "cleaning up takes long", Params: map[string]string{"delay": "30s"}},
	{Name: "Stopped", Effect: "every worker hangs, for every kind, while the process lives and keeps its Lease"},
	{Name: "HotLoop", Effect: "each period writes a new time into the status", Params: map[string]string{"period": "1s"}},
	{Name: "SilentHotLoop", Effect: "each period reconciles and writes nothing", Params: map[string]string{"period": "1s"}},
	{Name: "SlowReconcile", Effect: "each reconcile sleeps first", Params: map[string]string{"delay": "30s"}},
	{Name: "ReadyButBroken", Effect: "the Deployment's pods cannot be scheduled, and the status says Ready all the same"},
	{Name: "TaskLeak", Effect: "each period reconciles and leaves a goroutine behind", Params: map[string]string{"period": "100ms"}},
	{Name: "HeapLeak", Effect: "each period reconciles and keeps some memory", Params: map[string]string{"period": "1s", "bytes": "1048576"}},
	{Name: "ReconcilePanicking", Effect: "each reconcile panics"},
}

// bytesMax is the most that one pass may leak.
const bytesMax = 64 << 20

// fault is one fault that is on, for the objects that it matches. Empty selectors match everything.
type fault struct {
	Fault     string            `json:"fault"`
	Kind      string            `json:"kind,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name,omitempty"`
	Params    map[string]string `json:"params,omitempty"`
	Since     time.Time         `json:"since"`
}

// newFault checks what was asked for, and fills in the defaults.
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
	return f, f.check()
}

func (f fault) check() error {
	for _, key := range []string{"period", "delay"} {
		value, set := f.Params[key]
		if d, err := time.ParseDuration(value); set && (err != nil || d < 10*time.Millisecond) {
			return fmt.Errorf("%s must be a duration of 10ms or more, not %q", key, value)
		}
	}
	if value, set := f.Params["bytes"]; set {
		if n, err := strconv.Atoi(value); err != nil || n < 1 || n > bytesMax {
			return fmt.Errorf("bytes must be a number from 1 to %d, not %q", bytesMax, value)
		}
	}
	aspects := []string{"all", "status", "type", "duplicate", "number"}
	if what, set := f.Params["what"]; set && !slices.Contains(aspects, what) {
		return fmt.Errorf("what must be one of %s, not %q", strings.Join(aspects, ", "), what)
	}
	if f.Kind != "" && !slices.ContainsFunc(kinds, func(k kind) bool { return k.name == f.Kind }) {
		return fmt.Errorf("no such kind: %q", f.Kind)
	}
	if f.Fault == "Stopped" && f.Kind+f.Namespace+f.Name != "" {
		return fmt.Errorf("Stopped stops everything; use SlowReconcile for single objects")
	}
	return nil
}

func (f fault) period() time.Duration { return f.duration("period") }
func (f fault) delay() time.Duration  { return f.duration("delay") }

func (f fault) bytes() int {
	n, err := strconv.Atoi(f.Params["bytes"])
	if err != nil {
		panic(err) // check has parsed it before.
	}
	return n
}

func (f fault) duration(key string) time.Duration {
	d, err := time.ParseDuration(f.Params[key])
	if err != nil {
		panic(err) // check has parsed it before.
	}
	return d
}

func (f fault) matches(kind, namespace, name string) bool {
	is := func(selector, value string) bool { return selector == "" || selector == value }
	return is(f.Kind, kind) && is(f.Namespace, namespace) && is(f.Name, name)
}

// sameSelectors says that two faults are about the same objects.
func (f fault) sameSelectors(g fault) bool {
	return f.Kind == g.Kind && f.Namespace == g.Namespace && f.Name == g.Name
}

// registry holds the faults that are on.
type registry struct {
	mu      sync.Mutex
	active  []fault
	changed chan struct{}
}

func newRegistry() *registry {
	return &registry{changed: make(chan struct{})}
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

// anywhere says whether a fault of that name is on for any object.
func (r *registry) anywhere(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.active, func(f fault) bool { return f.Fault == name })
}

// put switches a fault on, in place of one with the same name and selectors.
func (r *registry) put(f fault) {
	r.change(func(active []fault) []fault {
		same := func(g fault) bool { return g.Fault == f.Fault && g.sameSelectors(f) }
		return append(slices.DeleteFunc(active, same), f)
	})
}

// remove switches off what matches, and returns it.
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

func (r *registry) list() []fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]fault{}, r.active...)
}

// waitWhile waits as long as the condition holds, at most so long (0: for ever). It returns false when the context ended first.
func (r *registry) waitWhile(ctx context.Context, holds func() bool, most time.Duration) bool {
	var deadline <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		deadline = timer.C
	}
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if !holds() {
			return true
		}
		select {
		case <-changed:
		case <-deadline:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
