package main

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	apiGroup   = "zoo.loopwatch.dev"
	apiVersion = "v1"

	// finalizer delays the deletion of an object until its resources outside the cluster have been cleaned up.
	finalizer = apiGroup + "/cleanup"
)

// kind is one custom resource that this operator serves.
type kind struct {
	name string

	// style turns a verdict into a status; nil if the kind has no status.
	style style

	// plainStatus is true if the status is an ordinary field, because the CRD has no status subresource.
	plainStatus bool

	// workload is true if objects own a Deployment and a Secret, and not only a ConfigMap.
	workload bool

	// finishes is true if objects run once and then finish.
	finishes bool
}

var kinds = []kind{
	{name: "Widget", style: widgetStyle, workload: true},
	{name: "PhaseOnly", style: phaseOnlyStyle, workload: true},
	{name: "NoObserved", style: noObservedStyle, workload: true},
	{name: "ForeverProgressing", style: foreverProgressingStyle, workload: true},
	{name: "NumericString", style: numericStringStyle, workload: true},
	{name: "MapConditions", style: mapConditionsStyle, workload: true},
	{name: "Statusless"},
	{name: "NoSubresource", style: noSubresourceStyle, plainStatus: true, workload: true},
	{name: "JobLike", style: jobLikeStyle, finishes: true},
	{name: "Autoscaled", style: autoscaledStyle, workload: true},
}

func (k kind) lower() string { return strings.ToLower(k.name) }

func (k kind) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: apiGroup, Version: apiVersion, Kind: k.name}
}

// object returns an empty object of this kind.
func (k kind) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k.gvk())
	return u
}

// list returns an empty list of objects of this kind.
func (k kind) list() *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(k.gvk().GroupVersion().WithKind(k.name + "List"))
	return u
}
