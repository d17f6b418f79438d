package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// holdFinalizer adds the finalizer to a live object, unless a fault wants it off. It returns the time after which to
// look again, or 0.
func (r *reconciler) holdFinalizer(ctx context.Context, o *unstructured.Unstructured) (time.Duration, error) {
	wanted, again := true, time.Duration(0)
	if _, on := r.fault("FinalizerReleased", o); on {
		wanted = false
	}
	if f, on := r.fault("FinalizerFlapping", o); on {
		turn, left := beat(f.duration("period"))
		wanted, again = turn%2 == 0, left
	}
	if controllerutil.ContainsFinalizer(o, finalizer) == wanted {
		return again, nil
	}
	before := client.MergeFromWithOptions(o.DeepCopy(), client.MergeFromWithOptimisticLock{})
	_, careless := r.fault("FinalizerLost", o)
	switch {
	case !wanted:
		controllerutil.RemoveFinalizer(o, finalizer)
	case careless:
		o.SetFinalizers([]string{finalizer})
	default:
		controllerutil.AddFinalizer(o, finalizer)
	}
	return again, r.Patch(ctx, o, before)
}

// finalize cleans up after a deleted object. The garbage collector removes its children.
func (r *reconciler) finalize(ctx context.Context, o *unstructured.Unstructured) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(o, finalizer) {
		return ctrl.Result{}, nil
	}
	was, _, _ := unstructured.NestedMap(o.Object, "status")
	v := verdict{generation: o.GetGeneration()}
	if _, on := r.fault("FinalizerStuck", o); on {
		v.working(phaseDeleting, "CleanupFailed", "the backend refuses to let go")
		if err := r.report(ctx, o, was, v); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, fmt.Errorf("failed to clean up after %s/%s: the backend refuses to let go", o.GetNamespace(), o.GetName())
	}
	takes := r.config.cleanupAfter
	if f, on := r.fault("CleanupSlow", o); on {
		takes = f.duration("delay")
	}
	if left := time.Until(o.GetDeletionTimestamp().Add(takes)); takes > 0 && left > 0 {
		v.working(phaseDeleting, "CleaningUp", "cleaning up")
		return ctrl.Result{RequeueAfter: left}, r.report(ctx, o, was, v)
	}
	before := client.MergeFromWithOptions(o.DeepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.RemoveFinalizer(o, finalizer)
	return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, o, before))
}

// sooner returns the earlier one of two times to look again, of which 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
