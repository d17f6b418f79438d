// leaky keeps memory and goroutines on request and serves pprof, so that tests have real profiles.
//
//	go run . 127.0.0.1:6060
//	curl -X POST '127.0.0.1:6060/leak?mib=16&goroutines=200'
package main

import (
	"fmt"
	"log"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"strconv"
	"sync"
)

var (
	mutex sync.Mutex
	kept  = map[string][][]byte{}
	never = make(chan struct{})
)

// remember is the leak: nothing removes what it adds.
//
//go:noinline
func remember(key string, bytes int) {
	mutex.Lock()
	defer mutex.Unlock()
	kept[key] = append(kept[key], make([]byte, bytes))
}

// waitForever is the leaked goroutine: nobody closes the channel.
//
//go:noinline
func waitForever() {
	<-never
}

// watchObject starts a goroutine for an event, and forgets it.
//
//go:noinline
func watchObject() {
	go waitForever()
}

// churn allocates and keeps nothing, as a healthy reconcile does.
//
//go:noinline
func churn(bytes int) int {
	total := 0
	for range bytes / (64 << 10) {
		total += len(make([]byte, 64<<10))
	}
	return total
}

func number(request *http.Request, name string) int {
	value, _ := strconv.Atoi(request.FormValue(name))
	return value
}

func leak(response http.ResponseWriter, request *http.Request) {
	for range number(request, "mib") * 4 {
		remember("leak", 256<<10)
	}
	for range number(request, "goroutines") {
		watchObject()
	}
	churn(number(request, "churn") << 20)
	if request.FormValue("gc") != "" {
		runtime.GC()
		runtime.GC()
	}
	fmt.Fprintln(response, runtime.NumGoroutine(), "goroutines")
}

func main() {
	for range 64 {
		remember("cache", 128<<10)
	}
	http.HandleFunc("POST /leak", leak)
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
