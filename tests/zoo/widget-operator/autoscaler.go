package main

import (
	"context"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// autoscalerManager is the field manager of scale changes. It differs from the operator's, as with a real autoscaler.
const autoscalerManager = "zoo-autoscaler"

// scales are the replica counts that the autoscaler sets in turn.
var scales = []int64{1, 2, 3, 2}

// autoscaler periodically changes the scale of every Autoscaled object, as a HorizontalPodAutoscaler does.
type autoscaler struct {
	client.Client
	every time.Duration
}

// NeedLeaderElection returns true, so that only the leader scales.
func (a *autoscaler) NeedLeaderElection() bool { return true }

// Start scales until the context ends.
func (a *autoscaler) Start(ctx context.Context) error {
	ticker := time.NewTicker(a.every)
	defer ticker.Stop()
	for turn := 1; ; turn++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			a.scaleAll(ctx, scales[turn%len(scales)])
		}
	}
}

func (a *autoscaler) scaleAll(ctx context.Context, replicas int64) {
	log := ctrl.Log.WithName("autoscaler")
	list := kind{name: "Autoscaled"}.list()
	if err := a.List(ctx, list); err != nil {
		log.Error(err, "failed to list")
		return
	}
	for i := range list.Items {
		o := &list.Items[i]
		suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend")
		if suspended || o.GetDeletionTimestamp() != nil {
			continue
		}
		err := a.scale(ctx, o, replicas)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // The next tick retries.
		case err != nil:
			log.Error(err, "failed to scale", "object", client.ObjectKeyFromObject(o))
		}
	}
}

func (a *autoscaler) scale(ctx context.Context, o client.Object, replicas int64) error {
	scale := &unstructured.Unstructured{}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	if err := a.SubResource("scale").Get(ctx, o, scale); err != nil {
		return err
	}
	if now, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas"); err != nil || now == replicas {
		return err
	}
	if err := unstructured.SetNestedField(scale.Object, replicas, "spec", "replicas"); err != nil {
		return err
	}
	return a.SubResource("scale").Update(ctx, o, client.WithSubResourceBody(scale), client.FieldOwner(autoscalerManager))
}
