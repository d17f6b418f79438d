package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// faultServer switches faults on and off over HTTP. It serves on every replica, but only the leader reconciles.
type faultServer struct {
	address     string
	faults      *registry
	reconcilers []*reconciler
	elected     <-chan struct{}
}

// NeedLeaderElection lets a standby accept faults, too.
func (s *faultServer) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (s *faultServer) Start(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return fmt.Errorf("failed to listen for faults: %w", err)
	}
	if !listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		listener.Close()
		return fmt.Errorf("--fault-listen must be a loopback address, not %s", listener.Addr())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /catalog", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, catalog) })
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.faults.list()) })
	mux.HandleFunc("DELETE /faults", s.deleteAll)
	mux.HandleFunc("PUT /faults/{fault}", s.put)
	mux.HandleFunc("DELETE /faults/{fault}", s.delete)

	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	ctrl.Log.WithName("faults").Info("listening", "address", listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// switched is the response to every request that switches faults.
type switched struct {
	Faults []fault `json:"faults"`

	// Requeued is the number of objects that are reconciled immediately.
	Requeued int `json:"requeued"`
}

func (s *faultServer) put(w http.ResponseWriter, request *http.Request) {
	f, err := newFault(request.PathValue("fault"), first(request.URL.Query()))
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	s.faults.put(f)
	s.finish(w, request, "fault on", []fault{f})
}

func (s *faultServer) delete(w http.ResponseWriter, request *http.Request) {
	query := first(request.URL.Query())
	f, err := newFault(request.PathValue("fault"), query)
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	s.finish(w, request, "fault off", s.faults.remove(func(g fault) bool {
		return g.Fault == f.Fault && (len(query) == 0 || g.sameSelectors(f))
	}))
}

func (s *faultServer) deleteAll(w http.ResponseWriter, request *http.Request) {
	s.finish(w, request, "fault off", s.faults.remove(func(fault) bool { return true }))
}

// finish requeues the objects of the switched faults, so that they take effect immediately.
func (s *faultServer) finish(w http.ResponseWriter, request *http.Request, what string, faults []fault) {
	done := switched{Faults: faults}
	for _, f := range faults {
		ctrl.Log.WithName("faults").Info(what, "fault", f)
		for _, r := range s.reconcilers {
			n, err := s.requeue(request.Context(), r, f)
			if err != nil {
				answer(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
				return
			}
			done.Requeued += n
		}
	}
	answer(w, http.StatusOK, done)
}

func (s *faultServer) requeue(ctx context.Context, r *reconciler, f fault) (int, error) {
	select {
	case <-s.elected:
	default:
		return 0, nil
	}
	if f.Kind != "" && f.Kind != r.kind.name {
		return 0, nil
	}
	return r.requeue(ctx, f)
}

// first returns the first value of each parameter.
func first(query url.Values) map[string]string {
	flat := map[string]string{}
	for key := range query {
		flat[key] = query.Get(key)
	}
	return flat
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // The client is gone when this fails.
}
