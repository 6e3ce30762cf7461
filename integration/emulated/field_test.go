package emulated_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/integration/emulated"
	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/dynamo"
	"github.com/lazyplane/lazyplane/statemachines"
)

// supervisor is the process of a task's only run, whose tree is given.
func (w *world) supervisor(tree string) spool.Ident {
	w.t.Helper()
	var i spool.Ident
	dir := filepath.Join(w.state, "runs", filepath.Base(filepath.Dir(tree)), "1")
	if ok, err := spool.Read(dir, spool.SelfFile, &i); err != nil || !ok {
		w.t.Fatalf("the run in %s: %v", dir, err)
	}
	return i
}

// A supervisor that cannot be reached misses its beats, and recovery looks for it:
// it lives, so it is neither ended nor replaced, and what nobody had committed is
// there when it comes back.
func b25AnUnreachableRunIsNotReplaced(t *testing.T, s *emulated.Stack, w *world) {
	req.Covers(t, "B25", "P7", "SY-043")
	src, err := statemachines.Source(names.MachineTurn)
	if err != nil {
		t.Fatal(err)
	}
	const minute = `"HeartbeatSeconds": 60`
	if strings.Count(string(src), minute) != 1 {
		t.Fatal("the definition has another heartbeat")
	}
	define := func(src string) {
		if err := s.Redefine(t.Context(), names.MachineTurn, []byte(src)); err != nil {
			t.Fatal(err)
		}
	}
	define(strings.Replace(string(src), minute, `"HeartbeatSeconds": 3`, 1))
	w.begin("crash")
	tree := w.begun("crash")
	if err := os.WriteFile(filepath.Join(tree, "precious"), []byte("edit\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	i := w.supervisor(tree)
	if err := syscall.Kill(i.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(i.PID, syscall.SIGCONT) }()
	looks := func() map[string]bool { // whether each recovery has ended
		all, err := s.Executions(t.Context(), names.MachineRecovery)
		if err != nil {
			t.Fatal(err)
		}
		ended := map[string]bool{}
		for name, state := range all {
			ended[name] = state == "SUCCEEDED"
		}
		return ended
	}
	before := looks()
	for looked := false; !looked; {
		w.pause()
		for name, ended := range looks() {
			_, was := before[name]
			looked = looked || ended && !was
		}
	}
	if got := w.call("showTask", map[string]any{"task_id": "crash"}); got["status"] != "working" || !i.Alive() {
		t.Errorf("an unreachable run is %v, its supervisor alive: %t", got["status"], i.Alive())
	}
	define(string(src))
	if err := syscall.Kill(i.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.goOn("crash")
	w.finish("crash")
	if got := git(t, w.root, "show", "main:precious"); got != "edit" {
		t.Errorf("the uncommitted edit is %q", got)
	}
	runs, err := filepath.Glob(filepath.Join(w.state, "runs", filepath.Base(filepath.Dir(tree)), "*", spool.StartFile))
	if err != nil || len(runs) != 2 {
		t.Errorf("%d runs were launched, want the turn's and the accept's broker: %v", len(runs), err)
	}
}

// Rows that nobody can serve, more than one visit of the clock takes, do not keep it
// from those behind them: each is put off.
func b28RowsThatAlwaysDeclineDoNotStandInTheWay(t *testing.T, s *emulated.Stack, w *world) {
	req.Covers(t, "B28", "SY-021")
	const bad, good = 60, 10
	db := dynamo.New(s.Table, emulated.Table)
	tid := id.Task("0b280000-0000-4000-8000-000000000000") // nobody's
	part := store.For(tenant).Task(tid)
	job, err := json.Marshal(app.Job{Kind: app.Notify, Tenant: tenant, Project: project, Task: tid, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	row := func(name string, doc []byte, due time.Time) {
		k := part.Key(name)
		if err := db.Transact(t.Context(), store.Write{Act: store.Put, Item: store.Item{
			Key: k, Attr: store.Attr{store.AttrType: "job", "schema": int64(1)}, Doc: doc,
			Index: map[store.Index]store.Slot{store.Due: store.DueAt(k, due)},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range bad {
		row(fmt.Sprintf("BAD#%03d", n), []byte(`{"kind":`), began.Add(-time.Hour))
	}
	for n := range good {
		row(fmt.Sprintf("GOOD#%03d", n), job, began.Add(-time.Minute))
	}
	for {
		p, err := db.Query(t.Context(), store.Query{PK: part.PK, Prefix: "GOOD#"})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Items) == 0 {
			break
		}
		w.pause()
	}
	p, err := db.Query(t.Context(), store.Query{PK: part.PK, Prefix: "BAD#", Limit: store.MaxLimit})
	if err != nil || len(p.Items) != bad {
		t.Fatalf("%d rows that nobody can serve are left, %v", len(p.Items), err)
	}
	for _, it := range p.Items {
		if it.Index[store.Due].SK <= store.DueAt(it.Key, began).SK {
			t.Errorf("%s is due at once again", it.Key)
		}
	}
}
