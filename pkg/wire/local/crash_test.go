package local_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// nurse starts the control plane again whenever it dies, until the test ends.
func (r *rig) nurse(arm func(p *plane)) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	arm(r.now())
	go func() {
		defer close(done)
		for {
			p := r.now()
			select {
			case <-quit:
				return
			case <-p.fuse.dead:
			}
			r.down()
			time.Sleep(3 * time.Second)
			p, err := r.start()
			if err != nil {
				r.t.Error(err)
				return
			}
			arm(p)
		}
	}()
	return func() { close(quit); <-done }
}

// killAt ends the plane once, before or after its nth durable write, and nurses it.
func (r *rig) killAt(n int, after bool) (killed *atomic.Bool, stop func()) {
	killed = new(atomic.Bool)
	return killed, r.nurse(func(p *plane) {
		p.fuse.setHook(func(i int, _ []store.Write) (bool, bool) {
			if i != n || !killed.CompareAndSwap(false, true) {
				return false, false
			}
			return !after, after
		})
	})
}

// sure makes a person's call through however many deaths of the control plane,
// under one key.
func (r *rig) sure(name string, args in) map[string]any {
	r.t.Helper()
	key := fmt.Sprintf("sure-%d", r.calls.Add(1))
	for range 100 {
		p := r.now()
		if p == nil {
			time.Sleep(time.Second)
			continue
		}
		out, err := callOp(r.t.Context(), r.ops, p.app, r.owner, name, args, key)
		if err == nil {
			return out
		}
		if !p.fuse.isDead() && fault.KindOf(err) != fault.Unavailable {
			r.t.Fatalf("%s: %v", name, err)
		}
		time.Sleep(time.Second)
	}
	r.t.Fatalf("%s was never answered", name)
	return nil
}

// story is the whole life of one task: made, started, worked on, accepted.
func story(r *rig) id.Task {
	tid := id.Task(r.sure("createTask", in{"goal": "one", "prompt": "do one", "code": "one"})["task_id"].(string))
	r.sure("startTask", in{"task_id": "one"})
	r.await(tid, task.Blocked)
	r.sure("acceptTask", in{"task_id": "one"})
	r.await(tid, task.Complete)
	return tid
}

// drained waits until every outbox row of the task is done.
func (r *rig) drained(tid id.Task) {
	r.t.Helper()
	r.until("the outbox is empty", func() bool {
		p := r.now()
		return p != nil && !p.fuse.isDead() && len(rows[map[string]any](r, tid, "OUT#")) == 0
	})
}

// await is rest through deaths of the control plane.
func (r *rig) await(tid id.Task, want task.Status) {
	r.t.Helper()
	for end := time.Now().Add(3 * time.Hour); ; time.Sleep(500 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("the task never came to be %s; it went %s", want, r.path(tid))
		}
		p := r.now()
		if p == nil || p.fuse.isDead() {
			continue
		}
		it, err := p.db.Get(r.t.Context(), store.For(tenant).Task(tid).Meta())
		if err == nil && it.Str(store.AttrStatus) == string(want) {
			if t := r.task(tid); !t.Claimed && (want != task.Complete || t.Workspace == nil) {
				return
			}
		}
	}
}

func TestKillingThePlaneAtAnyWriteLosesNothing(t *testing.T) {
	clean, first, points := "", 0, 0
	t.Run("clean", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			first = r.now().fuse.count() + 1
			tid := story(r)
			r.drained(tid)
			clean, points = r.path(tid), r.now().fuse.count()
		})
	})
	t.Logf("%d durable writes", points-first+1)
	if points < first+20 {
		t.Fatalf("the story has %d writes, which cannot be all of them", points)
	}
	for n := first; n <= points; n++ {
		for _, after := range []bool{false, true} {
			if os.Getenv("LAZY_EVERY_CRASH") == "" && (n%2 != 0 || after != (n%4 == 0)) {
				continue // a quarter of them, unless all are asked for
			}
			t.Run(fmt.Sprintf("%d-%t", n, after), func(t *testing.T) {
				req.Covers(t, "P4", "P11", "SY-038", "SM-017", "UW-013")
				inBubble(t, func(t *testing.T, r *rig) {
					killed, stop := r.killAt(n, after)
					defer stop()
					tid := story(r)
					r.drained(tid)
					if got := r.path(tid); got != clean {
						t.Errorf("the task went %s, want %s", got, clean)
					}
					if !killed.Load() && n < points-3 { // beats and reads may save a write at the end
						t.Error("nothing was killed")
					}
					if got := r.file("main", "done.txt"); got != "done" {
						t.Errorf("main has %q", got)
					}
					if n := strings.Count(r.git("log", "--format=%B", "main"), "Lazy-Task: "); n != 1 {
						t.Errorf("main has %d landings, want 1", n)
					}
					if r.host.launched() != 1 || r.host.atOnce() != 1 {
						t.Errorf("%d launches, %d at once", r.host.launched(), r.host.atOnce())
					}
					if turns := rows[turn.Turn](r, tid, "TRN#"); len(turns) != 2 {
						t.Errorf("%d turns", len(turns))
					}
					if _, err := r.tryGit("rev-parse", "--verify", "-q", "refs/heads/lazy/one"); err == nil {
						t.Error("the branch is still there")
					}
				})
			})
		}
	}
}
