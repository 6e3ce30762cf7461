package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/bus/bustest"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// told is what the use cases told of.
type told struct {
	mu  sync.Mutex
	all []event.TaskMoved // guarded by mu
}

func (o *told) note(m event.TaskMoved) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, m)
}

// of returns what was told of a task, in the order of its versions.
func (o *told) of(t id.Task) []event.TaskMoved {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []event.TaskMoved
	for _, m := range o.all {
		if m.Task == t {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b event.TaskMoved) int { return int(a.Version-b.Version)*10 + a.Place - b.Place })
	return out
}

// history reads a task's rows as they are told of from the table.
func (r *rig) history(t id.Task) []event.TaskMoved {
	r.t.Helper()
	var out []event.TaskMoved
	q := store.Query{PK: store.For(tenant).Task(t).PK, Prefix: "HIS#"}
	err := store.All(r.t.Context(), r.now().db, q, func(it store.Item) bool {
		m, ok, err := app.MovedOf(it)
		if err != nil || !ok {
			r.t.Errorf("%s: %t, %v", it.Key, ok, err)
		}
		out = append(out, m)
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// What is told after a commit and what the table tells of it are the same, once
// for each row, whatever else the commit was part of.
func TestEveryChangeOfAStatusIsToldAsItIsRecorded(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
		other := r.create("two")
		r.do("closeTask", in{"task_id": "two", "reason": "a secret reason"})
		r.rest(other, task.Abandoned)
		valid := bustest.Shape(t)
		// integration/cost reckons with five of a task that is accepted.
		for tid, moves := range map[id.Task]int{tid: 5, other: 2} {
			want, got := r.history(tid), r.told.of(tid)
			if len(want) != moves || !slices.Equal(got, want) {
				t.Errorf("told were\n%+v, recorded are\n%+v", got, want)
			}
			for _, m := range got {
				e := m.Event()
				if err := valid(e.Type, e.Detail); err != nil {
					t.Errorf("%s: %v", e.Detail, err)
				}
				for _, no := range []string{"secret", "ada@", "do one", "do two"} {
					if bytes.Contains(e.Detail, []byte(no)) {
						t.Errorf("an event tells %q: %s", no, e.Detail)
					}
				}
			}
		}
	})
}

// moves hands on the lines of a log that tell of a move.
type moves chan string

func (m moves) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("a task moved")) {
		m <- string(p)
	}
	return len(p), nil
}

func TestALaptopTellsItsListenersAndItsLog(t *testing.T) {
	root := repository(t, scripted)
	paths, err := config.PathsIn(filepath.Join(t.TempDir(), "home"), root)
	if err != nil {
		t.Fatal(err)
	}
	log := make(moves, 10)
	p, err := local.Up(context.WithoutCancel(t.Context()), local.Options{
		Paths: paths, Version: "test", Log: slog.New(slog.NewJSONHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan event.Event, 10)
	p.Bus().Listen("test", func(_ context.Context, e event.Event) error { heard <- e; return nil }, event.TypeTaskMoved)
	c := &client.Client{Base: p.URL, Token: p.Token}
	var out struct {
		Task id.Task `json:"task_id"`
	}
	if err := c.Call(t.Context(), "createTask", map[string]any{"goal": "g", "prompt": "p"}, &out); err != nil {
		t.Fatal(err)
	}
	var m event.TaskMoved
	select {
	case e := <-heard:
		if err := json.Unmarshal(e.Detail, &m); err != nil {
			t.Fatal(err)
		}
	case <-t.Context().Done():
		t.Fatal("nobody was told")
	}
	if m.Task != out.Task || m.To != task.Backlog || m.Version != 1 || m.Tenant != local.Tenant {
		t.Errorf("it was told %+v of %s", m, out.Task)
	}
	select {
	case line := <-log:
		if !strings.Contains(line, out.Task.Short()) || !strings.Contains(line, `"to":"backlog"`) {
			t.Errorf("the log says %s", line)
		}
	case <-t.Context().Done():
		t.Fatal("the log was not told")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}
