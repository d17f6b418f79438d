package main

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// rivalManager is the field manager of the rival.
	rivalManager = "zoo-rival"

	// rivalSize and ownSize are the sizes that the rival and the operator want.
	rivalSize, ownSize = 99, 5

	// rivalEvery is the shortest interval at which the rival looks at the objects.
	rivalEvery = 100 * time.Millisecond
)

// rival is another controller of the operator's objects, for the fault WriteFight. It wants another size than the
// operator. Without the fault it does nothing.
type rival struct {
	client.Client
	faults *registry

	// looked is the time of the last look.
	looked time.Time
}

// NeedLeaderElection returns true, so that only the leader has a rival.
func (r *rival) NeedLeaderElection() bool { return true }

// Start writes until the context ends.
func (r *rival) Start(ctx context.Context) error {
	return lookEvery(ctx, rivalEvery, func() {
		for _, f := range r.faults.list() {
			if f.Fault == "WriteFight" && time.Since(r.looked) >= f.duration("period") {
				r.looked = time.Now()
				r.writeAll(ctx)
			}
		}
	})
}

func (r *rival) writeAll(ctx context.Context) {
	err := eachObject(ctx, r.Client, func(k kind, o *unstructured.Unstructured) {
		if _, on := r.faults.on("WriteFight", k.name, o.GetNamespace(), o.GetName()); on {
			r.write(ctx, o)
		}
	})
	if err != nil {
		ctrl.Log.WithName("rival").Error(err, "failed to list")
	}
}

func (r *rival) write(ctx context.Context, o *unstructured.Unstructured) {
	if err := resize(ctx, r.Client, o, rivalSize, client.FieldOwner(rivalManager)); err != nil {
		ctrl.Log.WithName("rival").Error(err, "failed to write a size", "object", client.ObjectKeyFromObject(o))
	}
}

// insist sets the size that the operator wants, if a fault lets it want one. The object then has the new version, so
// that a write of the status succeeds.
func (r *reconciler) insist(ctx context.Context, o *unstructured.Unstructured) error {
	if _, on := r.fault("WriteFight", o); !on {
		return nil
	}
	written := o.DeepCopy()
	if err := resize(ctx, r.Client, written, ownSize); err != nil {
		return err
	}
	o.SetResourceVersion(written.GetResourceVersion())
	o.SetGeneration(written.GetGeneration())
	return nil
}

// resize sets the size of an object if it differs. A conflict or a deleted object is no error: the next look finds out.
func resize(ctx context.Context, c client.Client, o *unstructured.Unstructured, size int64, options ...client.UpdateOption) error {
	if known, _, _ := unstructured.NestedInt64(o.Object, "spec", "size"); known == size {
		return nil
	}
	if err := unstructured.SetNestedField(o.Object, size, "spec", "size"); err != nil {
		return err
	}
	err := c.Update(ctx, o, options...)
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}
