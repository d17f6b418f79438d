package main

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	apiGroup   = "zoo.loopwatch.dev"
	apiVersion = "v1"

	// finalizer holds an object back until what it stands for outside the cluster has been cleaned up.
	finalizer = apiGroup + "/cleanup"
)

// kind is one custom resource that this operator serves.
type kind struct {
	name string

	// style writes down a verdict; nil where the kind has no status.
	style style

	// plainStatus says that the status is an ordinary field, because the CRD has no status subresource.
	plainStatus bool

	// workload says that objects own a Deployment and a Secret, not only a ConfigMap.
	workload bool

	// finishes says that objects run once, to an end.
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

// object is an empty object of this kind.
func (k kind) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k.gvk())
	return u
}

// list is an empty list of objects of this kind.
func (k kind) list() *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(k.gvk().GroupVersion().WithKind(k.name + "List"))
	return u
}
