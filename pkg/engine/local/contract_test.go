package local_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	"github.com/lazyplane/lazyplane/pkg/engine/enginetest"
	"github.com/lazyplane/lazyplane/pkg/engine/local"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

func TestContract(t *testing.T) {
	enginetest.Run(t, enginetest.Harness{
		Virtual: true,
		Around:  synctest.Test,
		Open: func(t *testing.T, definitions map[string][]byte, step engine.Step) enginetest.Running {
			r := open(t, file(t), definitions, step)
			return enginetest.Running{
				Engine:  r.Engine,
				Visited: r.visited,
				Wait:    r.wait,
			}
		},
	})
}

// file returns an open store of its own, closed with the test.
func file(t testing.TB) *sqlite.Store {
	t.Helper()
	return reopen(t, filepath.Join(t.TempDir(), "store.db"))
}

func reopen(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// running is an engine that runs until the test ends or stop is called.
type running struct {
	*local.Engine
	stop func()

	mu    sync.Mutex
	ended map[string]chan engine.Execution
}

func load(t testing.TB, definitions map[string][]byte) []*asl.Machine {
	t.Helper()
	var ms []*asl.Machine
	for name, src := range definitions {
		m, err := asl.Load(name, src, map[string]string{"StepFunction": "steps"})
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	return ms
}

func open(t testing.TB, s store.Store, definitions map[string][]byte, step engine.Step, more ...func(*local.Options)) *running {
	t.Helper()
	r := &running{ended: map[string]chan engine.Execution{}}
	o := local.Options{
		Store: s, Tenant: "t1", Machines: load(t, definitions), Step: step,
		Now: time.Now, NewToken: uuid.NewString,
		Closed: func(x engine.Execution) { r.end(x.Machine, x.Name) <- x },
	}
	for _, f := range more {
		f(&o)
	}
	e, err := local.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Engine = e
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// end is where the ending of an execution is told.
func (r *running) end(machine, name string) chan engine.Execution {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := machine + "/" + name
	if r.ended[key] == nil {
		r.ended[key] = make(chan engine.Execution, 1)
	}
	return r.ended[key]
}

func (r *running) wait(t *testing.T, machine, name string) engine.Execution {
	t.Helper()
	end := r.end(machine, name)
	x := <-end
	end <- x // for whoever asks again
	stored, err := r.Describe(t.Context(), machine, name)
	if err != nil {
		t.Fatal(err)
	}
	if stored.State != x.State || string(stored.Output) != string(x.Output) || stored.Error != x.Error {
		t.Errorf("the store says %v of an execution that ended %v", stored, x)
	}
	return stored
}

func (r *running) visited(t *testing.T, machine, name string) []string {
	t.Helper()
	v, err := r.Visited(t.Context(), machine, name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
