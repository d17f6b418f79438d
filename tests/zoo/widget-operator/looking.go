package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookEvery calls look at each interval until the context ends.
func lookEvery(ctx context.Context, every time.Duration, look func()) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			look()
		}
	}
}

// eachObject calls do for each object of the operator's kinds, until a kind cannot be listed.
func eachObject(ctx context.Context, c client.Client, do func(k kind, o *unstructured.Unstructured)) error {
	for _, k := range kinds {
		list := k.list()
		if err := c.List(ctx, list); err != nil {
			return fmt.Errorf("failed to list objects of the kind %s: %w", k.name, err)
		}
		for i := range list.Items {
			do(k, &list.Items[i])
		}
	}
	return nil
}
