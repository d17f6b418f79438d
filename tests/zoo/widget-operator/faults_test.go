package main

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestInvalidFaultsAreRejected(t *testing.T) {
	for _, c := range []struct {
		name  string
		query map[string]string
		wrong string
	}{
		{"PhaseCycling", map[string]string{"kind": "Widget", "period": "2s"}, ""},
		{"ConditionMalformed", map[string]string{"name": "one"}, ""},
		{"Stopped", nil, ""},
		{"Nothing", nil, "no such fault"},
		{"PhaseCycling", map[string]string{"delay": "2s"}, "takes no parameter"},
		{"PhaseCycling", map[string]string{"period": "0s"}, "10ms or more"},
		{"PhaseCycling", map[string]string{"kind": "widget"}, "no such kind"},
		{"ConditionMalformed", map[string]string{"period": "1s"}, "takes no parameter"},
		{"Stopped", map[string]string{"kind": "Widget"}, "takes no selectors"},
		{"CleanupSlow", map[string]string{"delay": "2s"}, ""},
		{"CleanupSlow", map[string]string{"delay": "soon"}, "10ms or more"},
		{"CrossNamespaceOwner", map[string]string{"to": "other"}, ""},
		{"CrossNamespaceOwner", map[string]string{"to": ""}, "name of a namespace"},
		{"HeapLeak", map[string]string{"rate": "20Mi"}, ""},
		{"HeapLeak", map[string]string{"rate": "0"}, "quantity from 1"},
		{"HeapLeak", map[string]string{"rate": "fast"}, "quantity from 1"},
		{"HeapLeak", map[string]string{"namespace": "a"}, "takes no selectors"},
		{"ReconcileFailing", map[string]string{"attempts": "3"}, ""},
		{"ReconcileFailing", map[string]string{"attempts": "-1"}, "number from 0"},
		{"Crash", map[string]string{"name": "one", "delay": "2s"}, ""},
	} {
		_, err := newFault(c.name, c.query)
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%s %v: %v", c.name, c.query, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s %v: want an error with %q, got %v", c.name, c.query, c.wrong, err)
		}
	}
}

func TestTheCatalogIsComplete(t *testing.T) {
	named := map[string]bool{}
	for _, k := range catalog {
		if named[k.Name] || k.Effect == "" {
			t.Errorf("%s is named twice or has no effect", k.Name)
		}
		named[k.Name] = true
		if _, err := newFault(k.Name, nil); err != nil {
			t.Errorf("the defaults of %s are wrong: %v", k.Name, err)
		}
	}
}

func TestAFaultCanBeOnFromTheStart(t *testing.T) {
	var c config
	if err := c.addFault("Crash?kind=Widget&name=one&delay=2s"); err != nil {
		t.Fatal(err)
	}
	if f := c.faults[0]; f.Fault != "Crash" || f.Kind != "Widget" || f.Name != "one" || f.duration("delay") != 2*time.Second {
		t.Errorf("got %+v", f)
	}
	if err := c.addFault("Nothing"); err == nil {
		t.Error("a fault that does not exist is accepted")
	}
}

func TestTheNarrowestFaultWins(t *testing.T) {
	r := newRegistry()
	for _, query := range []map[string]string{
		{"period": "1s"},
		{"period": "2s", "namespace": "a"},
		{"period": "3s", "namespace": "a", "name": "x"},
	} {
		f, err := newFault("PhaseCycling", query)
		if err != nil {
			t.Fatal(err)
		}
		r.put(f)
		r.put(f)
	}
	if n := len(r.list()); n != 3 {
		t.Fatalf("the same fault twice is one fault: %d are on", n)
	}
	for want, object := range map[string][2]string{"1s": {"b", "x"}, "2s": {"a", "y"}, "3s": {"a", "x"}} {
		if f, on := r.on("PhaseCycling", "Widget", object[0], object[1]); !on || f.Params["period"] != want {
			t.Errorf("%v: want the fault with period %s, got %v", object, want, f)
		}
	}
	if _, on := r.on("Overdue", "Widget", "a", "x"); on {
		t.Error("a fault is on that nobody switched on")
	}
}

func TestStoppedWorkersContinueWhenTheFaultIsOff(t *testing.T) {
	r := newRegistry()
	f, err := newFault("Stopped", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.put(f)
	gone := make(chan bool)
	go func() { gone <- r.waitWhile(context.Background(), r.stopped) }()
	select {
	case <-gone:
		t.Fatal("the worker did not stop")
	case <-time.After(50 * time.Millisecond):
	}
	r.remove(func(fault) bool { return true })
	if !<-gone {
		t.Fatal("the worker gave up")
	}
}

func TestAnUnchangedVerdictGivesAnUnchangedStatus(t *testing.T) {
	verdicts := map[string]func(*verdict){
		"succeeded": func(v *verdict) { v.succeeded() },
		"working":   func(v *verdict) { v.working(phaseProvisioning, "Provisioning", "provisioning") },
		"unknown":   func(v *verdict) { v.working(phaseProvisioning, "Provisioning", ""); v.ready = "Unknown" },
		"degraded":  func(v *verdict) { v.degraded("BackendLost", "gone") },
		"rejected":  func(v *verdict) { v.rejected("spec.image must be set") },
	}
	for _, k := range kinds {
		if k.style == nil {
			continue
		}
		for name, say := range verdicts {
			v := verdict{generation: 3}
			say(&v)
			once := k.style(nil, v, "2026-01-01T00:00:00Z")
			if twice := k.style(once, v, "2026-01-01T00:00:01Z"); !reflect.DeepEqual(once, twice) {
				t.Errorf("%s %s: %v became %v", k.name, name, once, twice)
			}
			if k.name != "JobLike" && saysReady(once, 3) != (name == "succeeded") {
				t.Errorf("%s %s is read back wrong: %v", k.name, name, once)
			}
		}
	}
}

func TestAnInvalidSpecIsReported(t *testing.T) {
	for _, c := range []struct {
		spec  map[string]any
		wrong string
	}{
		{map[string]any{"image": "pause", "size": int64(2), "secretRef": map[string]any{"name": "s"}}, ""},
		{map[string]any{"image": ""}, "must be set"},
		{map[string]any{"image": "an invalid one"}, "not the name of an image"},
		{map[string]any{"image": int64(7)}, "cannot be read"},
	} {
		o := kinds[0].object()
		o.Object["spec"] = c.spec
		_, wrong := readSpec(o)
		if (c.wrong == "") != (wrong == "") || !strings.Contains(wrong, c.wrong) {
			t.Errorf("%v: want %q, got %q", c.spec, c.wrong, wrong)
		}
	}
}

func TestTheArchiverOverwritesFinalizersOnlyWithTheFault(t *testing.T) {
	for _, c := range []struct {
		about              string
		had                []string
		deleted, on, wrote bool
		has                []string
	}{
		{"no fault", []string{finalizer}, false, false, false, []string{finalizer}},
		{"the fault", []string{finalizer}, false, true, true, []string{archiveFinalizer}},
		{"both already there", []string{archiveFinalizer, finalizer}, false, true, false, []string{archiveFinalizer, finalizer}},
		{"the fault is over", []string{archiveFinalizer, finalizer}, false, false, true, []string{finalizer}},
		{"deleted", []string{archiveFinalizer, finalizer}, true, true, true, []string{finalizer}},
		{"deleted before it could", []string{finalizer}, true, true, false, []string{finalizer}},
	} {
		o := kinds[0].object()
		o.SetFinalizers(c.had)
		if c.deleted {
			now := metav1.Now()
			o.SetDeletionTimestamp(&now)
		}
		if wrote := overwriteFinalizers(o, c.on); wrote != c.wrote || !reflect.DeepEqual(o.GetFinalizers(), c.has) {
			t.Errorf("%s: wrote %v, %v", c.about, wrote, o.GetFinalizers())
		}
	}
}

func TestAUIDIsKeptOnlyWithTheFault(t *testing.T) {
	p, o := newProgress(), kinds[0].object()
	for _, c := range []struct {
		uid, want types.UID
		keep      bool
	}{{"a", "a", false}, {"b", "b", true}, {"c", "b", true}, {"c", "c", false}, {"d", "d", true}} {
		o.SetUID(c.uid)
		if got := p.uid(o, c.keep); got != c.want {
			t.Errorf("%v: got %s", c, got)
		}
	}
}
