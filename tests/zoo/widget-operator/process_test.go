package main

import (
	"testing"
	"time"
)

// turnOn switches a fault on as of now, and returns its registry.
func turnOn(t *testing.T, name string, query map[string]string) (*registry, fault) {
	t.Helper()
	f, err := newFault(name, query)
	if err != nil {
		t.Fatal(err)
	}
	r := newRegistry()
	r.exit = func(int) { t.Errorf("%s ended the process", name) }
	r.put(f)
	return r, f
}

func turnOff(r *registry) { r.remove(func(fault) bool { return true }) }

func TestMemoryFollowsItsFault(t *testing.T) {
	const mebibyte = 1 << 20
	for _, c := range []struct {
		name  string
		query map[string]string
		after time.Duration
		want  int64
	}{
		{"HeapLeak", map[string]string{"rate": "2Mi"}, 0, 0},
		{"HeapLeak", map[string]string{"rate": "2Mi"}, 3 * time.Second, 6 * mebibyte},
		{"HeapLeak", map[string]string{"rate": "17476"}, time.Minute, 17476 * 60},
		{"HeapStep", map[string]string{"size": "5Mi"}, 0, 5 * mebibyte},
		{"HeapStep", map[string]string{"size": "5Mi"}, time.Hour, 5 * mebibyte},
		{"HeapWave", map[string]string{"size": "8Mi", "period": "1m"}, 15 * time.Second, 4 * mebibyte},
		{"HeapWave", map[string]string{"size": "8Mi", "period": "1m"}, 30 * time.Second, 8 * mebibyte},
		{"HeapWave", map[string]string{"size": "8Mi", "period": "1m"}, time.Minute, 0},
		{"OutOfMemory", map[string]string{"size": "8Mi", "delay": "4s"}, time.Second, 2 * mebibyte},
	} {
		r, f := turnOn(t, c.name, c.query)
		p := newProcessFaults(r)
		p.apply(f.Since.Add(c.after))
		h := p.kept[c.name]
		if h.size < c.want-1 || h.size > c.want+1 || len(p.kept) != 1 {
			t.Errorf("%s %v after %s: want %d bytes, got %d of %d", c.name, c.query, c.after, c.want, h.size, len(p.kept))
		}
		turnOff(r)
		p.apply(f.Since.Add(c.after))
		if len(p.kept) != 0 {
			t.Errorf("%s is off, and memory is left", c.name)
		}
	}
}

func TestAHoardKeepsExactlyItsSize(t *testing.T) {
	h := &hoard{}
	for _, size := range []int64{0, 1, chunk, 3*chunk + 7, 2 * chunk, 5, 0} {
		h.resize(size)
		kept := int64(0)
		for _, memory := range h.chunks {
			kept += int64(len(memory))
		}
		if kept != size || h.size != size {
			t.Errorf("want %d bytes, got %d, counted as %d", size, kept, h.size)
		}
	}
}

func TestAProcessEndsOnlyWhenItsFaultSaysSo(t *testing.T) {
	for _, c := range []struct {
		name  string
		query map[string]string
		after time.Duration
		want  int
	}{
		{"Crash", map[string]string{"delay": "3s"}, 2 * time.Second, 0},
		{"Crash", map[string]string{"delay": "3s"}, 3 * time.Second, exitFailed},
		{"Crash", map[string]string{"delay": "3s", "name": "one"}, time.Hour, 0},
		{"OutOfMemory", map[string]string{"size": "1Mi", "delay": "3s"}, 2 * time.Second, 0},
		{"OutOfMemory", map[string]string{"size": "1Mi", "delay": "3s"}, 3 * time.Second, exitKilled},
		{"HeapLeak", map[string]string{"rate": "1"}, time.Hour, 0},
	} {
		r, f := turnOn(t, c.name, c.query)
		ended := 0
		r.exit = func(code int) { ended = code }
		newProcessFaults(r).apply(f.Since.Add(c.after))
		if ended != c.want {
			t.Errorf("%s %v after %s: want exit code %d, got %d", c.name, c.query, c.after, c.want, ended)
		}
	}
}

func TestLeakedFilesAreClosedWhenTheFaultIsOff(t *testing.T) {
	r, f := turnOn(t, "FileDescriptorLeak", map[string]string{"period": "1s"})
	p := newProcessFaults(r)
	for _, seconds := range []int{3, 5} {
		p.apply(f.Since.Add(time.Duration(seconds) * time.Second))
		if len(p.files) != seconds {
			t.Errorf("want %d open files, got %d", seconds, len(p.files))
		}
	}
	one := p.files[0]
	turnOff(r)
	p.apply(f.Since.Add(6 * time.Second))
	if len(p.files) != 0 || one.Close() == nil {
		t.Error("files are still open")
	}
}
