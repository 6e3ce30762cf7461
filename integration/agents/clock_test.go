package agents

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The clock of a supervisor's waits is the test's: where the control plane's
// directory holds one named "clock", a wait is written down there and lasts until
// the test lets it end. That works across processes and asks no wall clock how
// long anything took.
const clockDir = "clock"

// held is agentcli.Program.After of these tests. A supervisor runs in
// ⟨state⟩/runs/⟨task⟩/⟨epoch⟩.
func held(ctx context.Context, what string, d time.Duration) <-chan struct{} {
	over := make(chan struct{})
	wd, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	task := filepath.Dir(wd)
	clock := filepath.Join(filepath.Dir(filepath.Dir(task)), clockDir)
	if _, err := os.Stat(clock); err != nil {
		t := time.AfterFunc(d, func() { close(over) })
		context.AfterFunc(ctx, func() { t.Stop() })
		return over
	}
	at := filepath.Join(clock, filepath.Base(task)+"."+what)
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, d)
		_ = f.Close()
	}
	if err != nil {
		panic(err)
	}
	go func() {
		for ctx.Err() == nil {
			if os.Remove(at+".over") == nil {
				close(over)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return over
}

// holdWaits makes the waits of this world's supervisors the test's. It is called
// before anything is started.
func (w *world) holdWaits() {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Join(w.paths.Dir, clockDir), 0o700); err != nil {
		w.t.Fatal(err)
	}
}

// waits are those that were begun so far for a task's short id, in order.
func (w *world) waits(task, what string) []string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.paths.Dir, clockDir, task+"."+what))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// elapse ends the present wait of a task.
func (w *world) elapse(task, what string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.paths.Dir, clockDir, task+"."+what+".over"), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}
