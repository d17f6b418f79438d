// The widget-operator is an operator as a user could have written it, with one addition: it misbehaves on request.
//
//	main.go        flags and wiring
//	kinds.go       the kinds, and the properties in which they differ
//	reconciler.go  the reconcile of one object
//	verdict.go     the result of a reconcile
//	finalizers.go  the finalizer of an object, and its cleanup
//	styles.go      how each kind writes a verdict into its status
//	children.go    the Deployment, ConfigMap and Secret of an object
//	autoscaler.go  a client that changes scales
//	archiver.go    a second controller, which overwrites finalizers
//	rival.go       a third controller, which overwrites specs
//	looking.go     how these two look at all objects
//	leader.go      the Lease, and the fault that releases it
//	faults.go      all faults, and those that are on
//	faulthttp.go   the HTTP server that switches faults
//	validating.go  the admission webhook, and its certificate
//	loop.go        the faults of the loop: reconciles that block, fail, panic or leak
//	process.go     the faults of the process: its memory, its file descriptors and its end
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "k8s.io/client-go/plugin/pkg/client/auth"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

type config struct {
	metricsAddress, healthAddress, pprofAddress, faultAddress string

	metricsSecure bool
	podName       string

	// faults are on from the start.
	faults []fault

	// webhookPort is that of the admission webhook, 0 for none.
	webhookPort    int
	webhookCertDir string
	webhookHost    string

	namespaces              string
	leaderElect             bool
	leaderElectionNamespace string
	leaseDuration           time.Duration

	fieldManager   string
	revision       string
	readyAfter     time.Duration
	cleanupAfter   time.Duration
	autoscaleEvery time.Duration
	waitForPods    bool
	concurrency    int
	cacheSync      time.Duration

	log zap.Options
}

func parse() config {
	c := config{log: zap.Options{Development: false}}
	flag.StringVar(&c.metricsAddress, "metrics-bind-address", ":8080", "Where /metrics is served, \"0\" for nowhere.")
	flag.BoolVar(&c.metricsSecure, "metrics-secure", false, "Serve /metrics over TLS with a self-signed certificate, and only to accounts that the API server knows and that may get it.")
	flag.StringVar(&c.healthAddress, "health-probe-bind-address", ":8081", "Where /healthz and /readyz are served.")
	flag.StringVar(&c.pprofAddress, "pprof-bind-address", "", "Where /debug/pprof is served, empty for nowhere.")
	flag.StringVar(&c.faultAddress, "fault-listen", "", "Loopback address where faults are switched on and off, empty for nowhere.")
	flag.Func("fault", "A fault that is on from the start, for example Crash?kind=Widget&name=one; may be repeated.", c.addFault)
	flag.IntVar(&c.webhookPort, "webhook-port", 0, "Loopback port of the admission webhook, which accepts each object, 0 for none.")
	flag.StringVar(&c.webhookCertDir, "webhook-cert-dir", "", "Folder of tls.crt and tls.key of the webhook; the operator creates them.")
	flag.StringVar(&c.webhookHost, "webhook-host", "", "Name of the webhook's Service in its certificate: SERVICE.NAMESPACE.svc.")
	flag.StringVar(&c.podName, "pod-name", os.Getenv("POD_NAME"), "Name of the Pod, for the Lease; by default $POD_NAME, else the name of the host.")
	flag.StringVar(&c.namespaces, "namespace", "", "The only namespaces to work in, separated by commas; empty for all.")
	flag.BoolVar(&c.leaderElect, "leader-elect", false, "Reconcile only while holding the Lease.")
	flag.StringVar(&c.leaderElectionNamespace, "leader-election-namespace", "", "Namespace of the Lease; by default $POD_NAMESPACE, else the first of --namespace, else zoo-system.")
	flag.DurationVar(&c.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "Duration of the Lease; the leader renews it within two thirds of that and retries after each seventh.")
	flag.StringVar(&c.fieldManager, "field-manager", "widget-operator", "Name under which this operator writes.")
	flag.StringVar(&c.revision, "revision", "dev", "Revision of this operator, for its first log line.")
	flag.DurationVar(&c.readyAfter, "ready-after", time.Second, "The shortest time for a change.")
	flag.DurationVar(&c.cleanupAfter, "cleanup-after", 0, "How long it takes to clean up after a deleted object.")
	flag.DurationVar(&c.autoscaleEvery, "autoscale-every", 30*time.Second, "How often the scale of each Autoscaled changes, 0 for never.")
	flag.BoolVar(&c.waitForPods, "wait-for-pods", true, "Ready requires ready pods; set to false where no kubelet runs.")
	flag.DurationVar(&c.cacheSync, "cache-sync-timeout", 0, "How long the informers may take to sync before the operator exits; 0 for the framework's default.")
	flag.IntVar(&c.concurrency, "concurrency", 2, "Objects of one kind reconciled at once.")
	c.log.BindFlags(flag.CommandLine)
	flag.Parse()
	return c
}

// addFault adds a fault that is on from the start.
func (c *config) addFault(text string) error {
	name, query, _ := strings.Cut(text, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return err
	}
	f, err := newFault(name, first(params))
	c.faults = append(c.faults, f)
	return err
}

// metrics returns the options of the metrics server, as a scaffolded operator has them.
func (c config) metrics() metricsserver.Options {
	options := metricsserver.Options{BindAddress: c.metricsAddress, SecureServing: c.metricsSecure}
	if c.metricsSecure {
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
		options.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	}
	return options
}

// mayRead reports whether the operator may read a namespace.
func (c config) mayRead(namespace string) bool {
	within := namespaces(c.namespaces)
	_, named := within[namespace]
	return named || within == nil
}

func main() {
	c := parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&c.log)))
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+":", err)
		os.Exit(1)
	}
}

func run(c config) error {
	log := ctrl.Log.WithName("setup")
	log.Info("starting", "operator", "widget-operator", "revision", c.revision, "pid", os.Getpid())

	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("failed to find a cluster: %w", err)
	}
	identity, err := c.identity()
	if err != nil {
		return fmt.Errorf("failed to find the name of the host: %w", err)
	}
	lock, err := c.lock(restConfig, identity)
	if err != nil {
		return fmt.Errorf("failed to set up the Lease: %w", err)
	}
	renew, retry := c.renewDeadline(), c.leaseDuration/7
	webhooks, err := c.webhookServer()
	if err != nil {
		return fmt.Errorf("failed to create the certificate of the webhook: %w", err)
	}
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                              clientgoscheme.Scheme,
		Metrics:                             c.metrics(),
		WebhookServer:                       webhooks,
		HealthProbeBindAddress:              c.healthAddress,
		PprofBindAddress:                    c.pprofAddress,
		LeaderElection:                      c.leaderElect,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &c.leaseDuration,
		RenewDeadline:                       &renew,
		RetryPeriod:                         &retry,
		Client:                              client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Cache: cache.Options{
			DefaultNamespaces: namespaces(c.namespaces),
			DefaultTransform:  cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Secret{}:    {Transform: digestForeign},
				&corev1.ConfigMap{}: {Transform: digestForeign},
			},
		},
	})
	if err != nil {
		return fmt.Errorf("failed to set up the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return err
	}

	ctx := ctrl.SetupSignalHandler()
	faults := newRegistry()
	for _, f := range c.faults {
		f.Since = time.Now().UTC()
		faults.put(f)
	}
	if c.webhookPort > 0 {
		mgr.GetWebhookServer().Register("/validate", &webhook.Admission{Handler: &validator{faults: faults}})
	}
	writer := client.WithFieldOwner(mgr.GetClient(), c.fieldManager)
	var reconcilers []*reconciler
	for _, k := range kinds {
		r := &reconciler{
			Client:   writer,
			kind:     k,
			config:   c,
			faults:   faults,
			progress: newProgress(),
			loop:     newLoopState(),
			events:   mgr.GetEventRecorder("widget-operator"),
		}
		if err := r.setUp(ctx, mgr); err != nil {
			return fmt.Errorf("failed to set up the controller of %s: %w", k.name, err)
		}
		reconcilers = append(reconcilers, r)
	}
	if c.autoscaleEvery > 0 {
		if err := mgr.Add(&autoscaler{Client: mgr.GetClient(), every: c.autoscaleEvery}); err != nil {
			return err
		}
	}
	if c.faultAddress != "" || len(c.faults) > 0 {
		if err := c.addFaultRunners(mgr, faults, reconcilers, restConfig, identity); err != nil {
			return fmt.Errorf("failed to set up the faults: %w", err)
		}
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("failed to run: %w", err)
	}
	log.Info("stopped", "operator", "widget-operator", "revision", c.revision)
	return nil
}

// addFaultRunners adds those parts of the operator that misbehave by themselves, and the server that switches faults.
func (c config) addFaultRunners(mgr ctrl.Manager, faults *registry, reconcilers []*reconciler, restConfig *rest.Config, identity string) error {
	lock, err := c.lock(restConfig, identity)
	if err != nil {
		return err
	}
	runners := []manager.Runnable{newProcessFaults(faults), &archiver{Client: mgr.GetClient(), faults: faults}, &rival{Client: mgr.GetClient(), faults: faults}}
	if c.leaderElect {
		runners = append(runners, &flapper{faults: faults, lock: lock})
	}
	if c.faultAddress != "" {
		runners = append(runners, &faultServer{address: c.faultAddress, faults: faults, reconcilers: reconcilers, elected: mgr.Elected()})
	}
	for _, runner := range runners {
		if err := mgr.Add(runner); err != nil {
			return err
		}
	}
	return nil
}

// namespaces restricts the cache to the listed namespaces; an empty list means no restriction.
func namespaces(list string) map[string]cache.Config {
	if list == "" {
		return nil
	}
	within := map[string]cache.Config{}
	for _, name := range strings.Split(list, ",") {
		within[strings.TrimSpace(name)] = cache.Config{}
	}
	return within
}
