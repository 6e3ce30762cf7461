package app_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/runner"
)

// fakeRunner launches nothing and remembers what it was asked to. A launch is
// alive until it is ended or stopped.
type fakeRunner struct {
	mu       sync.Mutex
	launched map[string]runner.Spec // by reference
	sight    map[string]runner.Report
	stops    []string
	failNext error
}

func newFakeRunner() *fakeRunner {
	return &fakeRunner{launched: map[string]runner.Spec{}, sight: map[string]runner.Report{}}
}

func (f *fakeRunner) Launch(_ context.Context, s runner.Spec) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.failNext; err != nil {
		f.failNext = nil
		return "", err
	}
	ref := fmt.Sprintf("run-%s-%d", s.Task.Short(), s.Epoch)
	if _, ok := f.launched[ref]; !ok {
		f.launched[ref] = s
		f.sight[ref] = runner.Report{Sight: runner.Alive}
	}
	return ref, nil
}

func (f *fakeRunner) Find(_ context.Context, t id.Task, epoch int64) (string, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ref := fmt.Sprintf("run-%s-%d", t.Short(), epoch)
	_, ok := f.launched[ref]
	return ref, ok, nil
}

func (f *fakeRunner) Observe(_ context.Context, ref string) (runner.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r, ok := f.sight[ref]; ok {
		return r, nil
	}
	return runner.Report{Sight: runner.Gone, Reason: "never launched"}, nil
}

func (f *fakeRunner) Stop(_ context.Context, ref, why string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stops = append(f.stops, ref+": "+why)
	f.sight[ref] = runner.Report{Sight: runner.Gone, Reason: why}
	return nil
}

// count returns how many runs were ever launched.
func (f *fakeRunner) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.launched)
}

// fakeEngine keeps executions and task tokens and runs no step.
type fakeEngine struct {
	mu     sync.Mutex
	execs  map[string]engine.Execution
	tokens map[string]string // answered: succeeded, failed
	beats  int
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{execs: map[string]engine.Execution{}, tokens: map[string]string{}}
}

func (e *fakeEngine) Start(_ context.Context, machine, name string, input []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := machine + "/" + name
	if x, ok := e.execs[k]; ok {
		if x.State == engine.Running && bytes.Equal(x.Input, input) {
			return nil
		}
		return engine.ErrNameUsed
	}
	e.execs[k] = engine.Execution{Machine: machine, Name: name, State: engine.Running, Input: bytes.Clone(input)}
	return nil
}

func (e *fakeEngine) Describe(_ context.Context, machine, name string) (engine.Execution, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, ok := e.execs[machine+"/"+name]
	if !ok {
		return x, engine.ErrNoExecution
	}
	return x, nil
}

func (e *fakeEngine) Stop(_ context.Context, machine, name, cause string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := machine + "/" + name
	x, ok := e.execs[k]
	if !ok {
		return engine.ErrNoExecution
	}
	if x.State == engine.Running {
		x.State, x.Cause = engine.Aborted, cause
		e.execs[k] = x
	}
	return nil
}

func (e *fakeEngine) answer(token, how string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, done := e.tokens[token]; done || token == "" {
		return engine.ErrTokenGone
	}
	e.tokens[token] = how
	return nil
}

func (e *fakeEngine) Succeed(_ context.Context, token string, _ []byte) error {
	return e.answer(token, "succeeded")
}

func (e *fakeEngine) Fail(_ context.Context, token, name, _ string) error {
	return e.answer(token, "failed: "+name)
}

func (e *fakeEngine) Beat(context.Context, string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.beats++
	return nil
}

// started returns how many executions there are.
func (e *fakeEngine) started() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.execs)
}

// memBlobs is an immutable object store in memory.
type memBlobs struct {
	mu   sync.Mutex
	data map[string][]byte
}

func newMemBlobs() *memBlobs { return &memBlobs{data: map[string][]byte{}} }

func (b *memBlobs) Put(_ context.Context, key string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, ok := b.data[key]; ok && !bytes.Equal(old, data) {
		return fmt.Errorf("blob %s exists with other bytes", key)
	}
	b.data[key] = bytes.Clone(data)
	return nil
}

func (b *memBlobs) Get(_ context.Context, key string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, ok := b.data[key]
	if !ok {
		return nil, blob.ErrNotFound
	}
	return bytes.Clone(d), nil
}

func (b *memBlobs) Delete(_ context.Context, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.data, key)
	return nil
}

var (
	_ app.Repository = (*fakeRepo)(nil)
	_ runner.Runner  = (*fakeRunner)(nil)
	_ engine.Engine  = (*fakeEngine)(nil)
	_ blob.Store     = (*memBlobs)(nil)
)
