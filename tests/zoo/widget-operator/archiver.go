package main

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	// archiverManager is the field manager of the archiver.
	archiverManager = "zoo-archiver"

	// archiveFinalizer is the finalizer of the archiver. Its domain is not that of the operator.
	archiveFinalizer = "archiver.example.com/copy"

	// archiveEvery is the interval at which the archiver looks at the objects.
	archiveEvery = 200 * time.Millisecond
)

// archiver is a second controller of the operator's objects, for the fault FinalizerLost. It is careless: it replaces
// the list of finalizers by its own finalizer, instead of adding it. Without the fault it does nothing.
type archiver struct {
	client.Client
	faults *registry

	// clean is true if no object has its finalizer.
	clean bool
}

// NeedLeaderElection returns true, so that only the leader archives.
func (a *archiver) NeedLeaderElection() bool { return true }

// Start archives until the context ends.
func (a *archiver) Start(ctx context.Context) error {
	return lookEvery(ctx, archiveEvery, func() {
		on := slices.ContainsFunc(a.faults.list(), func(f fault) bool { return f.Fault == "FinalizerLost" })
		if on || !a.clean {
			a.clean = a.archiveAll(ctx) && !on
		}
	})
}

// archiveAll reports whether no object has the archiver's finalizer.
func (a *archiver) archiveAll(ctx context.Context) bool {
	log := ctrl.Log.WithName("archiver")
	clean := true
	err := eachObject(ctx, a.Client, func(k kind, o *unstructured.Unstructured) {
		_, on := a.faults.on("FinalizerLost", k.name, o.GetNamespace(), o.GetName())
		if !overwriteFinalizers(o, on) {
			return
		}
		clean = false
		err := a.Update(ctx, o, client.FieldOwner(archiverManager))
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // The next tick retries.
		case err != nil:
			log.Error(err, "failed to write finalizers", "object", client.ObjectKeyFromObject(o))
		}
	})
	if err != nil {
		log.Error(err, "failed to list")
		return false
	}
	return clean
}

// overwriteFinalizers puts the archiver's finalizer in the place of all others, or removes it from an object that is
// being deleted or has no fault. It reports whether that changes the object.
func overwriteFinalizers(o *unstructured.Unstructured, on bool) bool {
	wanted := on && o.GetDeletionTimestamp().IsZero()
	if controllerutil.ContainsFinalizer(o, archiveFinalizer) == wanted {
		return false
	}
	if !wanted {
		return controllerutil.RemoveFinalizer(o, archiveFinalizer)
	}
	o.SetFinalizers([]string{archiveFinalizer})
	return true
}
