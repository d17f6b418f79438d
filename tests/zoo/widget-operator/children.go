package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "widget-operator"

	// configAnnotation holds a digest of the configuration on the pod template, so that a change of it rolls the Pods.
	configAnnotation = apiGroup + "/config"

	// digestKey is the only key that the cache keeps of Secrets and ConfigMaps that the operator does not own.
	digestKey = "digest"
)

// children are the objects that one object owns.
type children struct {
	name     types.NamespacedName
	labels   map[string]string
	selector map[string]string
}

func childrenOf(k kind, o *unstructured.Unstructured) children {
	selector := map[string]string{"app.kubernetes.io/name": k.lower(), "app.kubernetes.io/instance": o.GetName()}
	labels := map[string]string{managedByLabel: managedBy}
	for key, value := range selector {
		labels[key] = value
	}
	return children{
		name:     types.NamespacedName{Namespace: o.GetNamespace(), Name: k.lower() + "-" + o.GetName()},
		labels:   labels,
		selector: selector,
	}
}

func (c children) meta(suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: c.name.Namespace, Name: c.name.Name + suffix}
}

// own sets the labels of a child, and makes the object its controller.
func (r *reconciler) own(o *unstructured.Unstructured, child client.Object, labels map[string]string) error {
	merged := child.GetLabels()
	if merged == nil {
		merged = map[string]string{}
	}
	for key, value := range labels {
		merged[key] = value
	}
	child.SetLabels(merged)
	_, outdated := r.fault("OwnerReplaced", o)
	owner := r.kind.object()
	owner.SetNamespace(o.GetNamespace())
	owner.SetName(o.GetName())
	owner.SetUID(r.progress.uid(o, outdated))
	return controllerutil.SetControllerReference(owner, child, r.Scheme())
}

// reachOut creates a ConfigMap in another namespace, if a fault wants that. The object is its owner, although an owner
// must be in the same namespace.
func (r *reconciler) reachOut(ctx context.Context, o *unstructured.Unstructured) error {
	f, on := r.fault("CrossNamespaceOwner", o)
	if !on {
		return nil
	}
	c := childrenOf(r.kind, o)
	meta := c.meta("-shared")
	meta.Namespace, meta.Labels = f.Params["to"], c.labels
	meta.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o, r.kind.gvk())}
	err := r.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"from": o.GetNamespace()}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("failed to create the ConfigMap in %s: %w", meta.Namespace, err)
	}
	return nil
}

// plan is the input from which the children are made.
type plan struct {
	spec

	// references is a digest of the Secret and ConfigMap that the spec refers to.
	references string
}

// applyChildren creates the children or updates them to the plan. It returns the Deployment, if the kind has one, and
// whether the Deployment changed.
func (r *reconciler) applyChildren(ctx context.Context, o *unstructured.Unstructured, p plan) (*appsv1.Deployment, bool, error) {
	c := childrenOf(r.kind, o)
	configMap := &corev1.ConfigMap{ObjectMeta: c.meta("-config")}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, configMap, func() error {
		configMap.Data = map[string]string{"size": strconv.FormatInt(p.Size, 10), "image": p.Image}
		return r.own(o, configMap, c.labels)
	}); err != nil {
		return nil, false, fmt.Errorf("failed to apply the ConfigMap: %w", err)
	}
	if !r.kind.workload {
		return nil, false, nil
	}
	secret := &corev1.Secret{ObjectMeta: c.meta("-token")}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, secret, func() error {
		if len(secret.Data["token"]) == 0 {
			secret.Data = map[string][]byte{"token": []byte(rand.Text())}
		}
		return r.own(o, secret, c.labels)
	}); err != nil {
		return nil, false, fmt.Errorf("failed to apply the Secret: %w", err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: c.meta("")}
	done, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		configuration := digest(configMap.Data, secret.Data, p.references)
		if _, stale := r.fault("StaleConfiguration", o); stale && deployment.Spec.Template.Annotations[configAnnotation] != "" {
			configuration = deployment.Spec.Template.Annotations[configAnnotation]
		}
		shape(deployment, c, p, configuration)
		return r.own(o, deployment, c.labels)
	})
	if err != nil {
		return nil, false, fmt.Errorf("failed to apply the Deployment: %w", err)
	}
	return deployment, done != controllerutil.OperationResultNone, nil
}

// shape sets the fields that this operator manages, and leaves the defaults of the API server unchanged.
func shape(d *appsv1.Deployment, c children, p plan, configuration string) {
	replicas := int32(p.Replicas)
	d.Spec.Replicas = &replicas
	if d.Spec.Selector == nil {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: c.selector}
	}
	template := &d.Spec.Template
	template.Labels = c.labels
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[configAnnotation] = configuration
	if len(template.Spec.Containers) != 1 {
		template.Spec.Containers = make([]corev1.Container, 1)
	}
	container := &template.Spec.Containers[0]
	container.Name = "app"
	container.Image = p.Image
	container.EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: c.name.Name + "-config"}}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: c.name.Name + "-token"}}},
	}
}

// rolledOut reports whether all Pods of the Deployment are available and have its newest template.
func rolledOut(d *appsv1.Deployment) bool {
	want := *d.Spec.Replicas
	return d.Status.ObservedGeneration >= d.Generation &&
		d.Status.UpdatedReplicas == want && d.Status.AvailableReplicas == want && d.Status.Replicas == want
}

// resolve reads the Secret, the ConfigMap and the source that the spec refers to. It returns a digest of the first two,
// or the reason why it cannot read one of them.
func (r *reconciler) resolve(ctx context.Context, o *unstructured.Unstructured, s spec) (found, missing string, err error) {
	for _, wanted := range []struct {
		to     *reference
		object client.Object
		kind   string
	}{
		{s.SecretRef, &corev1.Secret{}, "Secret"},
		{s.ConfigMapRef, &corev1.ConfigMap{}, "ConfigMap"},
	} {
		if wanted.to == nil {
			continue
		}
		key := wanted.to.key(o.GetNamespace())
		if !r.config.mayRead(key.Namespace) {
			return "", "ReferenceForbidden", nil
		}
		switch err := r.Get(ctx, key, wanted.object); {
		case apierrors.IsNotFound(err) && wanted.to.Optional:
			continue
		case apierrors.IsNotFound(err):
			return "", wanted.kind + "NotFound", nil
		case err != nil:
			return "", "", fmt.Errorf("failed to read %s %s: %w", wanted.kind, key, err)
		}
		switch object := wanted.object.(type) {
		case *corev1.Secret:
			found += digest(object.Data)
		case *corev1.ConfigMap:
			found += digest(object.Data)
		}
	}
	if s.SourceRef == nil {
		return found, "", nil
	}
	source := kind{name: s.SourceRef.Kind}.object()
	switch err := r.Get(ctx, s.SourceRef.key(o.GetNamespace()), source); {
	case apierrors.IsNotFound(err) && !s.SourceRef.Optional:
		return "", noSource, nil
	case err != nil && !apierrors.IsNotFound(err):
		return "", "", fmt.Errorf("failed to read %s %s: %w", s.SourceRef.Kind, s.SourceRef.Name, err)
	}
	return found, "", nil
}

// digestForeign replaces the data of Secrets and ConfigMaps that the operator does not own with a digest. This keeps
// the cache small and free of foreign secrets.
func digestForeign(object any) (any, error) {
	o, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	o.SetManagedFields(nil)
	if o.GetLabels()[managedByLabel] == managedBy {
		return object, nil
	}
	switch o := o.(type) {
	case *corev1.Secret:
		if _, done := o.Data[digestKey]; !done || len(o.Data) != 1 {
			o.Data = map[string][]byte{digestKey: []byte(digest(o.Data))}
		}
	case *corev1.ConfigMap:
		if _, done := o.Data[digestKey]; !done || len(o.Data) != 1 {
			o.Data = map[string]string{digestKey: digest(o.Data, o.BinaryData)}
			o.BinaryData = nil
		}
	}
	return object, nil
}

// digest returns a short hash of any JSON values.
func digest(values ...any) string {
	encoded, err := json.Marshal(values)
	if err != nil {
		panic(err) // Maps of strings and bytes always encode.
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}
