package local_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// Two hundred tasks at once, and the plane dies in the middle, twice: nothing
// acknowledged is lost, nothing runs a second time, what is accepted is merged
// once, and what the plane holds in memory does not grow with what is over.
func TestManyTasksAtOnceSurviveARestartUnderLoad(t *testing.T) {
	req.Covers(t, "P1", "P4", "P9", "SY-014", "SY-040")
	n, each := 200, 10 // every tenth commits, and is accepted
	if testing.Short() {
		n = 20
	}
	inBubble(t, func(t *testing.T, r *rig) {
		for i := range n {
			end := work(fmt.Sprintf("f%d.txt", i), "done\n")
			if i >= n/each {
				end = func(s *sup) { s.ok("nothing to commit") }
			}
			r.host.next(func(s *sup) {
				s.begin()
				s.goOn(20 * time.Second)
				end(s)
			})
		}
		stop := r.nurse(func(*plane) {})
		defer stop()
		goroutines, heap := held()
		ids := make([]id.Task, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				code := fmt.Sprintf("t%d", i)
				ids[i] = id.Task(r.sure("createTask", in{"goal": code, "prompt": "do it", "code": code})["task_id"].(string))
				r.sure("startTask", in{"task_id": code})
			})
		}
		all.Wait()
		r.now().fuse.blow()
		commits := 0
		for _, tid := range ids {
			r.await(tid, task.Blocked)
			if r.task(tid).Commits > 0 {
				commits++
				all.Go(func() { r.sure("acceptTask", in{"task_id": r.task(tid).Code}) })
			}
		}
		time.Sleep(time.Second)
		r.now().fuse.blow()
		all.Wait()
		for _, tid := range ids {
			if got := r.task(tid); got.Commits > 0 {
				r.await(tid, task.Complete)
			}
			r.drained(tid)
			if path := r.path(tid); !strings.HasPrefix(path, "backlog working blocked") || strings.Count(path, "working") != 1 || len(r.turns(tid)) != 2 {
				t.Errorf("%s went %s with %d turns", tid, path, len(r.turns(tid)))
			}
		}
		if commits != n/each || r.host.launched() != n || r.host.atOnce() != 1 {
			t.Errorf("%d with commits, %d launches for %d tasks, %d at once for one", commits, r.host.launched(), n, r.host.atOnce())
		}
		if got := strings.Count(r.git("log", "--format=%B", "main"), "Lazy-Task: "); got != commits {
			t.Errorf("main has %d merges, want %d", got, commits)
		}
		r.sound()
		g, h := held()
		t.Logf("%d goroutines and %d KB before, %d and %d KB after %d tasks", goroutines, heap>>10, g, h>>10, n)
		if g > goroutines+20 || h > heap+32<<20 {
			t.Error("the plane keeps what is over")
		}
	})
}

// held counts what is alive in the process.
func held() (goroutines int, heap uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}
