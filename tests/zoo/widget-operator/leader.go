package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
)

// leaderElectionID is the name of the Lease; its holder reconciles.
const leaderElectionID = "widget-operator.zoo.loopwatch.dev"

// identity returns the name of this process in the Lease, as controller-runtime forms it: in a Pod, the host has its name.
func (c config) identity() (string, error) {
	host := c.podName
	if host == "" {
		var err error
		if host, err = os.Hostname(); err != nil {
			return "", err
		}
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// lock returns a client of the Lease with this identity.
func (c config) lock(restConfig *rest.Config, identity string) (resourcelock.Interface, error) {
	clients, err := kubernetes.NewForConfig(rest.AddUserAgent(restConfig, "leader-election"))
	if err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.CoreV1().Events("")})
	config := resourcelock.ResourceLockConfig{
		Identity:      identity,
		EventRecorder: broadcaster.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: identity}),
	}
	return resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, c.leaseNamespace(), leaderElectionID, config, restConfig, c.renewDeadline())
}

// renewDeadline is the time within which the leader must renew the Lease.
func (c config) renewDeadline() time.Duration { return c.leaseDuration * 2 / 3 }

// leaseNamespace returns the namespace of the Lease.
func (c config) leaseNamespace() string {
	first, _, _ := strings.Cut(c.namespaces, ",")
	for _, candidate := range []string{c.leaderElectionNamespace, os.Getenv("POD_NAMESPACE"), first} {
		if candidate != "" {
			return candidate
		}
	}
	return "zoo-system"
}

// flapper releases the Lease periodically while LeaderFlapping is on.
type flapper struct {
	faults *registry
	lock   resourcelock.Interface
}

// NeedLeaderElection returns true, because only the leader can release the Lease.
func (f *flapper) NeedLeaderElection() bool { return true }

// Start releases the Lease in each period until the context ends.
func (f *flapper) Start(ctx context.Context) error {
	isOff := func() bool { _, on := f.faults.on("LeaderFlapping", "", "", ""); return !on }
	for f.faults.waitWhile(ctx, isOff) {
		if err := f.release(ctx); err != nil {
			ctrl.Log.WithName("faults").Error(err, "failed to release the Lease")
		}
		if on, still := f.faults.on("LeaderFlapping", "", "", ""); still {
			f.faults.pause(ctx, on, on.duration("period"))
		}
	}
	return nil
}

// release releases the Lease like a leader that ends, if this process holds it.
func (f *flapper) release(ctx context.Context) error {
	was, _, err := f.lock.Get(ctx)
	if err != nil {
		return fmt.Errorf("failed to read the Lease: %w", err)
	}
	if was.HolderIdentity != f.lock.Identity() {
		return nil
	}
	was.HolderIdentity, was.LeaseDurationSeconds = "", 1
	return f.lock.Update(ctx, *was)
}
