package main

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// disturbed returns a reconciler with a fault, its object `one`, which the fault matches, and the object `two`.
func disturbed(t *testing.T, name string, query map[string]string) (r *reconciler, one, two *unstructured.Unstructured) {
	t.Helper()
	faults, _ := turnOn(t, name, query)
	r = &reconciler{kind: kinds[0], faults: faults, loop: newLoopState()}
	one, two = kinds[0].object(), kinds[0].object()
	one.SetName("one")
	two.SetName("two")
	return r, one, two
}

var onlyOne = map[string]string{"name": "one"}

func TestReconcilesFailAsOftenAsTheFaultSays(t *testing.T) {
	for attempts, want := range map[string]int{"0": 5, "3": 3} {
		r, one, two := disturbed(t, "ReconcileFailing", map[string]string{"name": "one", "attempts": attempts})
		failed := 0
		for range 5 {
			if r.disturb(context.Background(), one) != nil {
				failed++
			}
			if err := r.disturb(context.Background(), two); err != nil {
				t.Error(err)
			}
		}
		if failed != want {
			t.Errorf("attempts %s: want %d failures, got %d", attempts, want, failed)
		}
		f, _ := newFault("ReconcileFailing", map[string]string{"name": "one", "attempts": attempts})
		r.faults.put(f)
		if r.disturb(context.Background(), one) == nil {
			t.Errorf("attempts %s: a fault that is switched on again begins anew", attempts)
		}
	}
}

func TestAStuckReconcileContinuesWhenTheFaultIsOff(t *testing.T) {
	r, one, two := disturbed(t, "ReconcileStuck", onlyOne)
	if err := r.disturb(context.Background(), two); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- r.disturb(context.Background(), one) }()
	select {
	case <-done:
		t.Fatal("the reconcile did not hang")
	case <-time.After(50 * time.Millisecond):
	}
	turnOff(r.faults)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestABlockingReconcileTakesItsDelay(t *testing.T) {
	r, one, two := disturbed(t, "QueueBacklog", map[string]string{"name": "one", "delay": "100ms"})
	for object, want := range map[*unstructured.Unstructured]time.Duration{one: 100 * time.Millisecond, two: 0} {
		began := time.Now()
		if err := r.disturb(context.Background(), object); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < want || took > want+90*time.Millisecond {
			t.Errorf("%s: want %s, took %s", object.GetName(), want, took)
		}
	}
}

func TestReconcilesPanicOnlyOnTheObject(t *testing.T) {
	r, one, two := disturbed(t, "ReconcilePanicking", onlyOne)
	if err := r.disturb(context.Background(), two); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "one has no backend") {
			t.Errorf("no panic, or another one: %q", said)
		}
	}()
	_ = r.disturb(context.Background(), one)
}

func TestAPoisonousObjectEndsTheProcess(t *testing.T) {
	r, one, two := disturbed(t, "Crash", map[string]string{"name": "one", "delay": "10ms"})
	ended := 0
	r.faults.exit = func(code int) { ended = code }
	for object, want := range map[*unstructured.Unstructured]int{two: 0, one: exitFailed} {
		ended = 0
		if err := r.disturb(context.Background(), object); err != nil || ended != want {
			t.Errorf("%s: want exit code %d, got %d, %v", object.GetName(), want, ended, err)
		}
	}
}

func TestLeakedTasksEndWhenTheFaultIsOff(t *testing.T) {
	r, one, two := disturbed(t, "TaskLeak", map[string]string{"name": "one", "tasks": "2"})
	before := runtime.NumGoroutine()
	for range 5 {
		for _, object := range []*unstructured.Unstructured{one, two} {
			if err := r.disturb(context.Background(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	if leaked := runtime.NumGoroutine() - before; leaked != 10 {
		t.Errorf("want 10 more goroutines, got %d", leaked)
	}
	turnOff(r.faults)
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines are left", runtime.NumGoroutine()-before)
}

func TestTheCacheFollowsTheObjects(t *testing.T) {
	r, one, two := disturbed(t, "CacheGrowth", map[string]string{"size": "4Ki"})
	cached := func() (bytes int) {
		for _, memory := range r.loop.cache {
			bytes += len(memory)
		}
		return bytes
	}
	for _, step := range []struct {
		about string
		do    func()
		want  int
	}{
		{"one object", func() { _ = r.disturb(context.Background(), one) }, 4096},
		{"the same object", func() { _ = r.disturb(context.Background(), one) }, 4096},
		{"another object", func() { _ = r.disturb(context.Background(), two) }, 8192},
		{"a deleted object", func() { r.loop.forget(client.ObjectKeyFromObject(two)) }, 4096},
		{"no fault", func() { turnOff(r.faults); _ = r.disturb(context.Background(), one) }, 0},
	} {
		if step.do(); cached() != step.want {
			t.Errorf("%s: want %d bytes, got %d", step.about, step.want, cached())
		}
	}
}
