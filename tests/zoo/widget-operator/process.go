package main

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// tick is the interval at which the process faults are applied.
	tick = 100 * time.Millisecond

	// chunk is the size of the largest allocation of a process fault.
	chunk = 1 << 20

	// linkSize is the size of one object of a linked heap.
	linkSize = 64

	// page is the distance between bytes that must be written so that memory is resident.
	page = 4096

	// exitFailed and exitKilled are the exit codes of a process that ends with an error, and of one that SIGKILL ends.
	exitFailed = 1
	exitKilled = 128 + int(syscall.SIGKILL)
)

// processFaults applies the faults that concern the process and not single objects.
type processFaults struct {
	faults *registry

	// kept holds the memory that each fault keeps.
	kept map[string]*hoard

	// files are open because of FileDescriptorLeak.
	files []*os.File

	// linked is the memory that HeapLinked keeps.
	linked *link
}

func newProcessFaults(faults *registry) *processFaults {
	return &processFaults{faults: faults, kept: map[string]*hoard{}}
}

// NeedLeaderElection returns false, because a standby can have these faults, too.
func (p *processFaults) NeedLeaderElection() bool { return false }

// Start applies the faults until the context ends.
func (p *processFaults) Start(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		p.apply(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// apply brings the process to the state that its faults demand at this time.
func (p *processFaults) apply(now time.Time) {
	p.leakHeap(now)
	p.stepHeap(now)
	p.linkHeap(now)
	p.waveHeap(now)
	p.exhaustMemory(now)
	p.leakFiles(now)
	p.crash(now)
}

// active returns a process fault that is on, and for how long it has been on.
func (p *processFaults) active(name string, now time.Time) (f fault, elapsed time.Duration, on bool) {
	f, on = p.faults.on(name, "", "", "")
	return f, now.Sub(f.Since), on
}

func (p *processFaults) leakHeap(now time.Time) {
	f, elapsed, on := p.active("HeapLeak", now)
	if !on {
		p.free("HeapLeak")
		return
	}
	p.keep("HeapLeak", int64(elapsed.Seconds()*float64(f.quantity("rate"))))
}

func (p *processFaults) stepHeap(now time.Time) {
	f, _, on := p.active("HeapStep", now)
	if !on {
		p.free("HeapStep")
		return
	}
	p.keep("HeapStep", f.quantity("size"))
}

func (p *processFaults) linkHeap(now time.Time) {
	f, _, on := p.active("HeapLinked", now)
	switch {
	case on && p.linked == nil:
		for size := f.quantity("size"); size > 0; size -= linkSize {
			p.linked = &link{next: p.linked}
		}
	case !on && p.linked != nil:
		p.linked = nil
		debug.FreeOSMemory()
	}
}

func (p *processFaults) waveHeap(now time.Time) {
	f, elapsed, on := p.active("HeapWave", now)
	if !on {
		p.free("HeapWave")
		return
	}
	turn := elapsed.Seconds() / f.duration("period").Seconds()
	p.keep("HeapWave", int64(float64(f.quantity("size"))*(1-math.Cos(2*math.Pi*turn))/2))
}

// exhaustMemory ends the process with SIGKILL once it has allocated the given size, as the kernel does at a limit.
func (p *processFaults) exhaustMemory(now time.Time) {
	f, elapsed, on := p.active("OutOfMemory", now)
	if !on {
		p.free("OutOfMemory")
		return
	}
	share := min(1, elapsed.Seconds()/f.duration("delay").Seconds())
	p.keep("OutOfMemory", int64(share*float64(f.quantity("size"))))
	if share == 1 {
		ctrl.Log.WithName("faults").Info("out of memory", "size", f.Params["size"])
		p.faults.exit(exitKilled)
	}
}

// leakFiles opens one file descriptor in each period.
func (p *processFaults) leakFiles(now time.Time) {
	f, elapsed, on := p.active("FileDescriptorLeak", now)
	if !on {
		for _, file := range p.files {
			file.Close()
		}
		p.files = nil
		return
	}
	for len(p.files) < int(elapsed/f.duration("period")) {
		file, err := os.Open(os.DevNull)
		if err != nil {
			ctrl.Log.WithName("faults").Error(err, "no more file descriptors", "leaked", len(p.files))
			return
		}
		p.files = append(p.files, file)
	}
}

// crash ends the process after a delay, unless the fault is limited to the reconciles of certain objects.
func (p *processFaults) crash(now time.Time) {
	if f, elapsed, on := p.active("Crash", now); on && elapsed >= f.duration("delay") {
		p.faults.crash("the fault Crash is on")
	}
}

func (p *processFaults) keep(name string, size int64) {
	if p.kept[name] == nil {
		p.kept[name] = &hoard{}
	}
	p.kept[name].resize(size)
}

// free releases the memory of a fault, and returns it to the system immediately.
func (p *processFaults) free(name string) {
	if p.kept[name] == nil {
		return
	}
	delete(p.kept, name)
	debug.FreeOSMemory()
}

// link is a small object that the garbage collector reaches only through another one.
type link struct {
	next *link
	_    [linkSize - 8]byte
}

// hoard is memory that is kept on purpose.
type hoard struct {
	chunks [][]byte
	size   int64
}

// resize allocates or releases memory until the hoard has this size.
func (h *hoard) resize(size int64) {
	for h.size > size {
		last := len(h.chunks) - 1
		h.size -= int64(len(h.chunks[last]))
		h.chunks[last] = nil
		h.chunks = h.chunks[:last]
	}
	for h.size < size {
		h.chunks = append(h.chunks, resident(min(chunk, size-h.size)))
		h.size += min(chunk, size-h.size)
	}
}

// resident allocates memory and writes to each page of it.
func resident(size int64) []byte {
	memory := make([]byte, size)
	for at := int64(0); at < size; at += page {
		memory[at] = 1
	}
	return memory
}

// exit ends this process.
func exit(code int) {
	if code == exitKilled {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // A process may always kill itself.
	}
	os.Exit(code)
}
