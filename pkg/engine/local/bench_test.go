package local_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/enginetest"
	"github.com/lazyplane/lazyplane/pkg/engine/local"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

// fiveSteps is a definition of five steps one after the other.
func fiveSteps() []byte {
	var states []string
	for i := 1; i <= 5; i++ {
		next := fmt.Sprintf(`"Next":"S%d"`, i+1)
		if i == 5 {
			next = `"Next":"Done"`
		}
		states = append(states, fmt.Sprintf(`"S%d":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke",
 "Parameters":{"FunctionName":"${StepFunction}","Payload":{"step":"s%d.v1","v.$":"$.v","tenant.$":"$.tenant","turn.$":"$.turn","n.$":"$.n"}},
 "TimeoutSeconds":60,"ResultPath":null,%s}`, i, i, next))
	}
	return []byte(`{"StartAt":"S1","States":{` + strings.Join(states, ",") + `,"Done":{"Type":"Succeed"}}}`)
}

// bench is an engine on a real file with sync FULL whose flows signal their end.
type bench struct {
	e     *local.Engine
	mu    sync.Mutex
	ended map[string]chan struct{}
}

func newBench(b *testing.B) *bench {
	b.Helper()
	r := &bench{ended: map[string]chan struct{}{}}
	s, err := sqlite.Open(b.Context(), b.TempDir()+"/store.db", time.Now)
	if err != nil {
		b.Fatal(err)
	}
	r.e, err = local.New(local.Options{
		Store: s, Tenant: "t1", Now: time.Now, NewToken: uuid.NewString,
		Machines: load(b, map[string][]byte{"five": fiveSteps()}),
		Step:     func(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil },
		Closed: func(x engine.Execution) {
			r.mu.Lock()
			defer r.mu.Unlock()
			close(r.ended[x.Name])
			delete(r.ended, x.Name)
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- r.e.Run(b.Context()) }()
	b.Cleanup(func() {
		if err := r.e.Close(); err != nil {
			b.Error(err)
		}
		if err := <-done; err != nil {
			b.Error(err)
		}
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return r
}

// flow runs one execution from its start to its durable end.
func (r *bench) flow(b *testing.B) time.Duration {
	name := uuid.NewString()
	end := make(chan struct{})
	r.mu.Lock()
	r.ended[name] = end
	r.mu.Unlock()
	began := time.Now()
	if err := r.e.Start(b.Context(), "five", name, []byte(enginetest.Input)); err != nil {
		b.Error(err)
		return 0
	}
	<-end
	return time.Since(began)
}

func BenchmarkFlowFiveSteps(b *testing.B) {
	r := newBench(b)
	var took []time.Duration
	for b.Loop() {
		took = append(took, r.flow(b))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
}

func BenchmarkFlow32Wide(b *testing.B) {
	const wide = 32
	r := newBench(b)
	began := time.Now()
	n := 0
	for b.Loop() {
		var wg sync.WaitGroup
		for range wide {
			wg.Go(func() {
				for range 8 {
					r.flow(b)
				}
			})
		}
		wg.Wait()
		n += wide * 8
	}
	b.ReportMetric(float64(n)/time.Since(began).Seconds(), "flows/s")
}
