package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// conflictPause gives the cache time to catch up after a write that was based on a stale read.
	conflictPause = 100 * time.Millisecond

	// sourcePause is the time between two looks for a source that does not exist. Nothing watches sources.
	sourcePause = time.Second

	// retryFirst and retryLast are the shortest and the longest pause between attempts to reconcile an object that
	// fails.
	retryFirst = 100 * time.Millisecond
	retryLast  = 30 * time.Second

	// noSource is the reason of an object whose source does not exist.
	noSource = "SourceNotFound"

	secretIndex    = "spec.secretRef"
	configMapIndex = "spec.configMapRef"
)

// spec is the same for every kind.
type spec struct {
	Size         int64      `json:"size,omitempty"`
	Image        string     `json:"image,omitempty"`
	Suspend      bool       `json:"suspend,omitempty"`
	Replicas     int64      `json:"replicas"`
	SecretRef    *reference `json:"secretRef,omitempty"`
	ConfigMapRef *reference `json:"configMapRef,omitempty"`
	SourceRef    *reference `json:"sourceRef,omitempty"`
}

type reference struct {
	// Kind is the kind of a source, which is one of this operator's.
	Kind      string `json:"kind,omitempty"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Optional  bool   `json:"optional,omitempty"`
}

func (r reference) key(home string) types.NamespacedName {
	if r.Namespace != "" {
		home = r.Namespace
	}
	return types.NamespacedName{Namespace: home, Name: r.Name}
}

// readSpec reads the spec. If it is invalid, wrong describes the error.
func readSpec(o *unstructured.Unstructured) (s spec, wrong string) {
	s.Replicas = 1
	fields, _, _ := unstructured.NestedMap(o.Object, "spec")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &s); err != nil {
		return s, "spec cannot be read: " + err.Error()
	}
	switch {
	case s.Image == "":
		return s, "spec.image must be set"
	case strings.Contains(s.Image, "invalid"):
		return s, fmt.Sprintf("spec.image %q is not the name of an image", s.Image)
	}
	return s, ""
}

// reconciler reconciles the objects of one kind.
type reconciler struct {
	client.Client

	kind     kind
	config   config
	faults   *registry
	progress *progress
	loop     *loopState
	events   events.EventRecorder

	// stale holds the statuses that the fault StatusReverted writes back, by the UID of the object.
	stale sync.Map

	// queue receives the objects of a switched fault; nil until this replica is the leader.
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	ready chan struct{}
}

func (r *reconciler) setUp(ctx context.Context, mgr ctrl.Manager) error {
	r.ready = make(chan struct{})
	for _, index := range []string{secretIndex, configMapIndex} {
		field := strings.TrimPrefix(index, "spec.")
		if err := mgr.GetFieldIndexer().IndexField(ctx, r.kind.object(), index, func(o client.Object) []string {
			return referenced(o.(*unstructured.Unstructured), field)
		}); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.kind.lower()).
		For(r.kind.object(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Secret{}).
		Watches(&corev1.Secret{}, r.referrers(secretIndex)).
		Watches(&corev1.ConfigMap{}, r.referrers(configMapIndex)).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.queue = queue
			close(r.ready)
			return nil
		})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.config.concurrency,
			CacheSyncTimeout:        r.config.cacheSync,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryLast),
		}).
		Complete(r)
}

func referenced(o *unstructured.Unstructured, field string) []string {
	var to reference
	fields, found, err := unstructured.NestedMap(o.Object, "spec", field)
	if !found || err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &to) != nil {
		return nil
	}
	return []string{to.key(o.GetNamespace()).String()}
}

// referrers maps a Secret or ConfigMap to the objects whose spec names it.
func (r *reconciler) referrers(index string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		list := r.kind.list()
		if err := r.List(ctx, list, client.MatchingFields{index: client.ObjectKeyFromObject(o).String()}); err != nil {
			log.FromContext(ctx).Error(err, "failed to list referrers", "kind", r.kind.name)
			return nil
		}
		var requests []reconcile.Request
		for i := range list.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
		return requests
	})
}

// Reconcile brings one object to its spec, as far as its faults allow.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if !r.faults.waitWhile(ctx, r.faults.stopped) {
		return ctrl.Result{}, nil
	}
	o := r.kind.object()
	if err := r.Get(ctx, request.NamespacedName, o); err != nil {
		if apierrors.IsNotFound(err) {
			r.progress.forget(request.NamespacedName)
			r.loop.forget(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.disturb(ctx, o); err != nil {
		return ctrl.Result{}, err
	}
	result, err := r.attend(ctx, o)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	}
	return result, err
}

func (r *reconciler) fault(name string, o *unstructured.Unstructured) (fault, bool) {
	return r.faults.on(name, r.kind.name, o.GetNamespace(), o.GetName())
}

func (r *reconciler) attend(ctx context.Context, o *unstructured.Unstructured) (ctrl.Result, error) {
	if !o.GetDeletionTimestamp().IsZero() {
		return r.finalize(ctx, o)
	}
	if _, on := r.fault("Unacknowledged", o); on {
		return ctrl.Result{}, nil
	}
	s, wrong := readSpec(o)
	if s.Suspend {
		return ctrl.Result{}, nil
	}
	again, err := r.holdFinalizer(ctx, o)
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	was, _, _ := unstructured.NestedMap(o.Object, "status")
	if r.kind.finishes && (was["phase"] == phaseSucceeded || was["phase"] == phaseFailed) {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	v, result, failure := r.judge(ctx, o, s, wrong, was)
	if apierrors.IsConflict(failure) || apierrors.IsAlreadyExists(failure) {
		return ctrl.Result{}, failure
	}
	if err := r.report(ctx, o, was, v); err != nil {
		return ctrl.Result{}, err
	}
	result.RequeueAfter = sooner(result.RequeueAfter, again)
	return result, failure
}

// judge does the work and returns its result.
func (r *reconciler) judge(ctx context.Context, o *unstructured.Unstructured, s spec, wrong string, was status) (verdict, ctrl.Result, error) {
	fields, _, _ := unstructured.NestedMap(o.Object, "spec")
	a := r.progress.on(o, digest(fields), func() bool { return saysReady(was, o.GetGeneration()) })
	v := verdict{generation: o.GetGeneration(), selector: labelSelector(childrenOf(r.kind, o).selector)}

	if wrong != "" {
		a.rejected, a.settled = true, false
		v.rejected(wrong)
		return v, ctrl.Result{}, nil
	}
	if _, on := r.fault("NeverRecovered", o); on && !a.settled && (a.rejected || saysRejected(was)) {
		v.rejected("spec.image was not the name of an image")
		return v, ctrl.Result{}, nil
	}
	if _, on := r.fault("Failing", o); on {
		v.degraded("DependencyUnavailable", "the backend does not answer")
		return v, ctrl.Result{}, fmt.Errorf("failed to reach the backend: connection refused")
	}
	if r.kind.finishes {
		return r.judgeRun(ctx, o, s, was, a, v)
	}
	if err := r.insist(ctx, o); err != nil {
		return v, ctrl.Result{}, err
	}
	references, missing, err := r.resolve(ctx, o, s)
	if err != nil {
		v.working(phasePending, "ReferenceUnreadable", err.Error())
		return v, ctrl.Result{}, err
	}
	if missing != "" {
		v.working(phasePending, missing, "waiting for what the spec refers to")
		if missing == noSource {
			return v, ctrl.Result{RequeueAfter: sourcePause}, nil
		}
		return v, ctrl.Result{}, nil
	}
	if err := r.reachOut(ctx, o); err != nil {
		v.working(phaseProvisioning, "ApplyFailed", err.Error())
		return v, ctrl.Result{}, err
	}
	deployment, changed, err := r.applyChildren(ctx, o, plan{spec: s, references: references})
	if err != nil {
		v.working(phaseProvisioning, "ApplyFailed", err.Error())
		return v, ctrl.Result{}, err
	}
	if changed {
		a.settled = false // The content of a reference changed, or another client changed the Deployment.
	}
	available := true
	if deployment != nil {
		v.replicas, v.readyReplicas = int64(deployment.Status.Replicas), int64(deployment.Status.ReadyReplicas)
		if r.config.waitForPods {
			available = rolledOut(deployment)
		} else {
			v.replicas, v.readyReplicas = s.Replicas, s.Replicas
		}
	}
	if _, on := r.fault("ReadyButBroken", o); on {
		available = true
	}
	result := r.conclude(o, a, &v, available)
	return v, result, nil
}

// conclude decides whether the object is ready, unless one of its faults decides that.
func (r *reconciler) conclude(o *unstructured.Unstructured, a *attempt, v *verdict, available bool) ctrl.Result {
	if !a.settled {
		if _, on := r.fault("Overdue", o); on {
			v.working(phaseProvisioning, "Waiting", "waiting for the backend")
			return ctrl.Result{}
		}
		if _, on := r.fault("PhaseStuck", o); on {
			v.working(phaseProvisioning, "Provisioning", "provisioning")
			v.ready = "Unknown"
			return ctrl.Result{}
		}
	}
	if f, on := r.fault("PhaseCycling", o); on {
		phases := []string{phasePending, phaseProvisioning, phaseValidating}
		turn, left := beat(f.duration("period"))
		v.working(phases[turn%int64(len(phases))], "Working", "working")
		v.ready = "Unknown"
		return ctrl.Result{RequeueAfter: left}
	}
	if left := time.Until(a.since.Add(r.config.readyAfter)); !a.settled && left > 0 {
		v.working(phaseProvisioning, "Provisioning", "provisioning")
		return ctrl.Result{RequeueAfter: left}
	}
	switch {
	case !available && a.settled:
		v.degraded("DeploymentUnavailable", "the Deployment lost pods")
		return ctrl.Result{}
	case !available:
		v.working(phaseProvisioning, "DeploymentRollingOut", "waiting for the Deployment")
		return ctrl.Result{}
	}
	_, regressed := r.fault("Regressed", o)
	if regressed && a.settled {
		v.degraded("BackendLost", "the backend went away")
		return ctrl.Result{}
	}
	a.settled, a.rejected = true, false
	v.succeeded()
	if regressed {
		return ctrl.Result{RequeueAfter: r.config.readyAfter + time.Second}
	}
	if f, on := r.fault("ConditionFlapping", o); on {
		turn, left := beat(f.duration("period"))
		if turn%2 == 1 {
			v.ready, v.reason, v.message = "False", "ProbeFailed", "the last probe failed"
		}
		return ctrl.Result{RequeueAfter: left}
	}
	for _, loop := range []string{"HotLoop", "SilentHotLoop", "UnchangedWrites"} {
		if f, on := r.fault(loop, o); on {
			return ctrl.Result{RequeueAfter: f.duration("period")}
		}
	}
	if f, on := r.fault("StatusReverted", o); on {
		_, left := beat(f.duration("period"))
		return ctrl.Result{RequeueAfter: left}
	}
	return ctrl.Result{}
}

// judgeRun moves an object that runs once from Pending through Running to Succeeded.
func (r *reconciler) judgeRun(ctx context.Context, o *unstructured.Unstructured, s spec, was status, a *attempt, v verdict) (verdict, ctrl.Result, error) {
	if _, _, err := r.applyChildren(ctx, o, plan{spec: s}); err != nil {
		v.working(phasePending, "ApplyFailed", err.Error())
		return v, ctrl.Result{}, err
	}
	_, stuck := r.fault("PhaseStuck", o)
	_, overdue := r.fault("Overdue", o)
	starts, ends := a.since.Add(r.config.readyAfter), a.since.Add(3*r.config.readyAfter)
	switch {
	case time.Now().Before(starts) && was["phase"] != phaseRunning:
		v.working(phasePending, "Pending", "waiting to run")
		return v, ctrl.Result{RequeueAfter: time.Until(starts)}, nil
	case stuck || overdue:
		v.working(phaseRunning, "Running", "running")
		return v, ctrl.Result{}, nil
	case time.Now().Before(ends):
		v.working(phaseRunning, "Running", "running")
		return v, ctrl.Result{RequeueAfter: time.Until(ends)}, nil
	}
	a.settled = true
	v.succeeded()
	v.phase = phaseSucceeded
	return v, ctrl.Result{}, nil
}

// report writes the verdict into the status if that changes it.
func (r *reconciler) report(ctx context.Context, o *unstructured.Unstructured, was status, v verdict) error {
	if r.kind.style == nil {
		return nil
	}
	is := r.kind.style(was, v, time.Now().UTC().Format(time.RFC3339))
	r.spoil(o, was, is)
	if equality.Semantic.DeepEqual(was, is) {
		return nil
	}
	o = o.DeepCopy()
	o.Object["status"] = is
	write := r.Status().Update
	if r.kind.plainStatus {
		write = func(ctx context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
			return r.Update(ctx, o)
		}
	}
	if err := write(ctx, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.tell(o, was, v)
	return nil
}

// spoil applies the faults that corrupt the status itself.
func (r *reconciler) spoil(o *unstructured.Unstructured, was, is status) {
	if _, on := r.fault("StatusLag", o); on {
		leaveBehind(was, is)
	}
	if _, on := r.fault("ConditionMalformed", o); on {
		malform(is)
	}
	if _, on := r.fault("HotLoop", o); on {
		renew(is)
	}
	r.revert(o, was, is)
}

// revert writes the status back that the object had when the fault StatusReverted began, in turns with a newer one.
func (r *reconciler) revert(o *unstructured.Unstructured, was, is status) {
	f, on := r.fault("StatusReverted", o)
	if !on {
		r.stale.Delete(o.GetUID())
		return
	}
	old, _ := r.stale.LoadOrStore(o.GetUID(), runtime.DeepCopyJSON(was))
	if turn, _ := beat(f.duration("period")); turn%2 == 1 {
		renew(is)
		conditions, _ := is["conditions"].([]any)
		for _, item := range conditions {
			if c, ok := item.(map[string]any); ok {
				c["message"] = fmt.Sprintf("probe %d has succeeded", turn)
			}
		}
		return
	}
	clear(is)
	for key, value := range runtime.DeepCopyJSON(old.(status)) {
		is[key] = value
	}
}

// renew sets the time of each condition to the present, although no condition has changed.
func renew(is status) {
	now := time.Now().UTC().Format(time.RFC3339)
	conditions, _ := is["conditions"].([]any)
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok {
			c["lastTransitionTime"] = now
		}
	}
}

// leaveBehind copies the observed generation of the former status to the new one, so that it lags behind.
func leaveBehind(was, is status) {
	observed, found := was["observedGeneration"]
	if !found {
		delete(is, "observedGeneration")
	} else if _, has := is["observedGeneration"]; has {
		is["observedGeneration"] = observed
	}
	conditions, _ := is["conditions"].([]any)
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok {
			if _, has := c["observedGeneration"]; has && found {
				c["observedGeneration"] = observed
			} else {
				delete(c, "observedGeneration")
			}
		}
	}
}

// malform adds conditions that break the conventions: an unknown status, no type, one type twice, a number as the
// status, and a plain string.
func malform(is status) {
	conditions, listed := is["conditions"].([]any)
	if !listed {
		return
	}
	is["conditions"] = append(conditions,
		map[string]any{"type": "Probed", "status": "maybe", "reason": "Undecided"},
		map[string]any{"status": "True", "reason": "Nameless"},
		map[string]any{"type": "Synced", "status": "True", "reason": "Once"},
		map[string]any{"type": "Synced", "status": "False", "reason": "Twice"},
		map[string]any{"type": "Counted", "status": int64(1), "lastTransitionTime": int64(0)},
		"Degraded")
}

// tell emits an Event when the object becomes ready, degraded or stalled, and when its cleanup fails.
func (r *reconciler) tell(o *unstructured.Unstructured, was status, v verdict) {
	switch {
	case v.ready == "True" && !looksReady(was):
		r.events.Eventf(o, nil, corev1.EventTypeNormal, v.reason, "Reconcile", "%s", v.message)
	case v.stalled, v.phase == phaseDegraded:
		r.events.Eventf(o, nil, corev1.EventTypeWarning, v.reason, "Reconcile", "%s", v.message)
	case v.phase == phaseDeleting && v.reason == "CleanupFailed":
		r.events.Eventf(o, nil, corev1.EventTypeWarning, v.reason, "Cleanup", "%s", v.message)
	}
}

// requeue requeues every object that a fault matches, and returns their number.
func (r *reconciler) requeue(ctx context.Context, f fault) (int, error) {
	list := r.kind.list()
	if err := r.List(ctx, list, client.InNamespace(f.Namespace)); err != nil {
		return 0, fmt.Errorf("failed to list %s: %w", r.kind.name, err)
	}
	<-r.ready
	matched := 0
	for i := range list.Items {
		o := &list.Items[i]
		if f.matches(r.kind.name, o.GetNamespace(), o.GetName()) {
			r.queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
			matched++
		}
	}
	return matched, nil
}

// beat returns the number of periods since the epoch, and the time left in the current one.
func beat(period time.Duration) (turn int64, left time.Duration) {
	now := time.Now().UnixNano()
	return now / int64(period), time.Duration(int64(period) - now%int64(period))
}

// labelSelector formats labels for the scale subresource, in a fixed order.
func labelSelector(labels map[string]string) string {
	return fmt.Sprintf("app.kubernetes.io/name=%s,app.kubernetes.io/instance=%s",
		labels["app.kubernetes.io/name"], labels["app.kubernetes.io/instance"])
}
