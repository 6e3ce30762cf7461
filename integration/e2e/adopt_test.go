package e2e

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// For the second plane no time passes, so no sweep and no time-out of it ever comes:
// only that it watches the run it found at its start can tell it of the run's end.
func TestAtItsStartAPlaneWatchesTheRunsItFinds(t *testing.T) {
	req.Covers(t, "SY-040", "AG-020", "SY-036")
	w := begin(t, "echo begun > begun.txt\nsleep 600\n", "")
	w.call("createTask", map[string]any{"goal": "Survive", "prompt": "x", "code": "live"})
	w.call("startTask", map[string]any{"task_id": "live"})
	w.down()

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	still := time.Now()
	plane, err := local.Up(context.WithoutCancel(t.Context()), local.Options{
		Paths: w.paths, Bin: self, Version: "test",
		Now: func() time.Time { return still }, After: func(time.Duration) <-chan time.Time { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.plane, w.c = plane, &client.Client{Base: plane.URL, Token: plane.Token}
	substate := func() any {
		return w.call("getStatus", map[string]any{"task_id": "live"})["task"].(map[string]any)["substate"]
	}
	for range 30 { // it has looked around by then, and found the run alive
		if got := substate(); got == "not-alive" {
			t.Fatal("a run that lives is held gone")
		}
	}
	files, err := filepath.Glob(filepath.Join(w.paths.Dir, "runs", "*", "1", spool.SelfFile))
	if err != nil || len(files) != 1 {
		t.Fatalf("runs: %v, %v", files, err)
	}
	var sup spool.Ident
	if ok, err := spool.Read(filepath.Dir(files[0]), spool.SelfFile, &sup); err != nil || !ok || !sup.Alive() {
		t.Fatalf("the supervisor is %+v, %v", sup, err)
	}
	if err := syscall.Kill(sup.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(2 * time.Minute) // only a broken plane takes any of it
	for substate() != "not-alive" {
		if time.Now().After(end) {
			t.Fatal("nobody told the plane of the end of the run")
		}
	}
	w.down()
	w.up() // time passes again, and the world can be cleaned up
}
