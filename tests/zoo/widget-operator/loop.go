package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unchangedWrites is the number of writes of UnchangedWrites in each period.
const unchangedWrites = 20

// loopState is what the faults of the loop remember of the objects of one kind.
type loopState struct {
	mu sync.Mutex

	// failed counts the attempts that failed because of ReconcileFailing.
	failed map[types.NamespacedName]failures

	// cache holds the memory that CacheGrowth keeps for each object.
	cache map[types.NamespacedName][]byte
}

// failures counts failed attempts since a fault is on.
type failures struct {
	since time.Time
	count int64
}

func newLoopState() *loopState {
	return &loopState{failed: map[types.NamespacedName]failures{}, cache: map[types.NamespacedName][]byte{}}
}

// disturb applies the faults of the loop to one reconcile, before the operator looks at the object.
func (r *reconciler) disturb(ctx context.Context, o *unstructured.Unstructured) error {
	key := client.ObjectKeyFromObject(o)
	growth, grows := r.fault("CacheGrowth", o)
	r.loop.remember(key, growth, grows)
	if f, on := r.fault("TaskLeak", o); on {
		for range f.number("tasks") {
			go r.leakedTask(f)
		}
	}
	if f, on := r.fault("QueueBacklog", o); on {
		r.faults.pause(ctx, f, f.duration("delay"))
	}
	if f, on := r.fault("ReconcileStuck", o); on {
		r.faults.waitWhile(ctx, func() bool { return r.faults.has(f) })
	}
	if f, on := r.fault("Crash", o); on && f.selective() {
		r.faults.pause(ctx, f, f.duration("delay"))
		if r.faults.has(f) {
			r.faults.crash(fmt.Sprintf("cannot handle %s %s", r.kind.name, key))
		}
	}
	if _, on := r.fault("ReconcilePanicking", o); on {
		panic(fmt.Sprintf("%s %s has no backend", r.kind.name, key))
	}
	if f, on := r.fault("ReconcileFailing", o); on && r.loop.fails(key, f) {
		return fmt.Errorf("failed to reconcile %s %s: the backend refuses the connection", r.kind.name, key)
	}
	if _, on := r.fault("UnchangedWrites", o); on {
		for range unchangedWrites {
			if err := r.Status().Update(ctx, o.DeepCopy()); err != nil {
				return fmt.Errorf("failed to write the status of %s %s: %w", r.kind.name, key, err)
			}
		}
	}
	if _, on := r.fault("ConflictStorm", o); on {
		old := o.DeepCopy()
		old.SetResourceVersion("1")
		if err := r.Update(ctx, old); err != nil {
			return fmt.Errorf("failed to update %s %s: %w", r.kind.name, key, err)
		}
	}
	return nil
}

// leakedTask is a goroutine that nothing ends but the end of its fault.
func (r *reconciler) leakedTask(f fault) {
	r.faults.waitWhile(context.Background(), func() bool { return r.faults.has(f) })
}

// remember keeps memory for an object while the fault is on, and releases it afterwards.
func (s *loopState) remember(key types.NamespacedName, f fault, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch memory, kept := s.cache[key]; {
	case !on:
		delete(s.cache, key)
	case !kept || int64(len(memory)) != f.quantity("size"):
		s.cache[key] = resident(f.quantity("size"))
	}
}

// fails reports whether this attempt fails, and counts it.
func (s *loopState) fails(key types.NamespacedName, f fault) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	so := s.failed[key]
	if !so.since.Equal(f.Since) {
		so = failures{since: f.Since}
	}
	attempts := f.number("attempts")
	if attempts > 0 && so.count >= attempts {
		return false
	}
	so.count++
	s.failed[key] = so
	return true
}

func (s *loopState) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cache, key)
	delete(s.failed, key)
}
