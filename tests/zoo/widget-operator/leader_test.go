package main

import (
	"context"
	"strings"
	"testing"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// heldLease is a Lease in memory.
type heldLease struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
}

func (l *heldLease) Identity() string { return "me" }

func (l *heldLease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := l.record
	return &record, nil, nil
}

func (l *heldLease) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.record = record
	return nil
}

func TestOnlyItsOwnLeaseIsReleased(t *testing.T) {
	for holder, want := range map[string]string{"me": "", "other": "other", "": ""} {
		lease := &heldLease{record: resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaderTransitions: 3}}
		if err := (&flapper{lock: lease}).release(context.Background()); err != nil {
			t.Fatal(err)
		}
		if lease.record.HolderIdentity != want || lease.record.LeaderTransitions != 3 {
			t.Errorf("held by %q: became %+v", holder, lease.record)
		}
	}
}

func TestTheIdentityBeginsWithTheNameOfThePod(t *testing.T) {
	one, err := config{podName: "zoo-1"}.identity()
	if err != nil || !strings.HasPrefix(one, "zoo-1_") {
		t.Errorf("got %q, %v", one, err)
	}
	if two, _ := (config{podName: "zoo-1"}).identity(); one == two {
		t.Errorf("two processes share the identity %s", one)
	}
}

func TestMetricsAreProtectedOnlyWhenSecure(t *testing.T) {
	for _, secure := range []bool{false, true} {
		options := config{metricsAddress: ":8443", metricsSecure: secure}.metrics()
		if options.SecureServing != secure || (options.FilterProvider != nil) != secure {
			t.Errorf("secure %v: %+v", secure, options)
		}
	}
}
