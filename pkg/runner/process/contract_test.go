package process_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/runner/runnertest"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

// world is a laptop.
type world struct{ *rig }

func (w world) Runner() runnertest.Runner {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runner()
}

// Started waits until every run has named itself: a process counts itself only
// once it runs.
func (w world) Started() int {
	for epoch := range int64(3) {
		if _, err := os.Stat(filepath.Join(w.dir(epoch), spool.StartFile)); err == nil {
			w.alive(epoch)
		}
	}
	return len(w.started())
}

func (w world) End(t *testing.T, epoch int64) {
	t.Helper()
	must(t, syscall.Kill(w.alive(epoch).PID, syscall.SIGKILL))
}

func TestProcessesKeepTheContract(t *testing.T) {
	runnertest.Run(t, func(t *testing.T) runnertest.World {
		return world{newRig(t, "sleep")}
	})
}
