package local_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// spoil writes past every rule.
func (r *rig) spoil(ws ...store.Write) {
	r.t.Helper()
	if err := r.now().db.Transact(r.t.Context(), ws...); err != nil {
		r.t.Fatal(err)
	}
}

// rewrite changes the record of a row and leaves its attributes alone.
func rewrite[T any](r *rig, k store.Key, edit func(*T)) {
	r.t.Helper()
	it, err := r.now().db.Get(r.t.Context(), k)
	if err != nil {
		r.t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(it.Doc, &v); err != nil {
		r.t.Fatal(err)
	}
	edit(&v)
	it.Doc = encode(r.t, v)
	r.spoil(store.Write{Act: store.Put, Item: it})
}

// Each promise is broken by hand once, and the checker has to say so: what it
// cannot see, no test that relies on it proves.
func TestTheCheckerSeesEachBrokenPromise(t *testing.T) {
	drop := func(r *rig, k store.Key) { r.spoil(store.Write{Act: store.Delete, Item: store.Item{Key: k}}) }
	row := func(k store.Key, typ string, v any) store.Write {
		return store.Write{Act: store.Put, Item: store.Item{Key: k, Attr: store.Attr{store.AttrType: typ, "schema": int64(1)}, Doc: encode(t, v)}}
	}
	for _, c := range []struct {
		promise, says string
		spoil         func(r *rig, t id.Task, p store.Partition)
	}{
		{"P1", "is held: true", func(r *rig, _ id.Task, p store.Partition) {
			rewrite(r, p.Meta(), func(t *task.Task) { t.Claimed = true })
		}},
		{"P1", "was claimed by 2 turns", func(r *rig, _ id.Task, p store.Partition) {
			r.spoil(row(p.Turn(2), "turn", turn.Turn{Seq: 2, Side: turn.Input, Epoch: 1, ID: "other", Receipt: "delivered"}))
		}},
		{"P1", "runs of it are alive", func(r *rig, t id.Task, _ store.Partition) {
			for e := range int64(2) {
				s := &sup{h: r.host, gone: make(chan struct{})}
				s.spec.Task, s.spec.Epoch = t, e+7
				r.host.mu.Lock()
				r.host.runs[refOf(t, e+7)] = s
				r.host.mu.Unlock()
			}
		}},
		{"P2", "its history ends at", func(r *rig, t id.Task, p store.Partition) { drop(r, lastHistory(r, t, p)) }},
		{"P2", "is no edge of the table", func(r *rig, t id.Task, p store.Partition) {
			rewrite(r, lastHistory(r, t, p), func(h *task.History) { h.Trigger = task.Reopen })
		}},
		{"P2", "not on the list", func(r *rig, t id.Task, _ store.Partition) {
			drop(r, store.For(tenant).Project(project).Live(r.task(t).Created, t))
		}},
		{"P2", "status is", func(r *rig, t id.Task, _ store.Partition) {
			rewrite(r, store.For(tenant).Project(project).Live(r.task(t).Created, t), func(l *app.Live) { l.Status = task.Working })
		}},
		{"P3", "are not marked delivered", func(r *rig, _ id.Task, p store.Partition) {
			rewrite(r, p.Turn(2), func(tr *turn.Turn) { tr.Normal = false })
		}},
		{"P3", "the prompt of turn 1 is not stored", func(r *rig, _ id.Task, p store.Partition) { drop(r, p.Run(1)) }},
		{"P4", "has 1 merges of it, and it was completed 0 times", func(r *rig, t id.Task, _ store.Partition) {
			r.git("commit", "-q", "--allow-empty", "-m", "sneaked in\n\nLazy-Task: "+string(t))
		}},
		{"P6", "which was never claimed", func(r *rig, _ id.Task, p store.Partition) {
			r.spoil(row(p.Turn(9), "turn", turn.Turn{Seq: 9, Epoch: 4}))
		}},
		{"P6", "run 5 was written", func(r *rig, _ id.Task, p store.Partition) { r.spoil(row(p.Run(5), "run", turn.Run{Epoch: 5})) }},
		{"P7", "goes on although the task is at epoch", func(r *rig, t id.Task, _ store.Partition) {
			s := &sup{h: r.host, gone: make(chan struct{})}
			s.spec.Task, s.spec.Epoch = t, 0
			r.host.mu.Lock()
			r.host.runs[refOf(t, 0)] = s
			r.host.mu.Unlock()
		}},
		{"P9", "its branch is at", func(r *rig, _ id.Task, _ store.Partition) {
			r.git("update-ref", "refs/heads/lazy/one", r.git("commit-tree", "-m", "x", "HEAD^{tree}"))
		}},
		{"P9", "is gone; its work is commit", func(r *rig, _ id.Task, _ store.Partition) { r.git("update-ref", "-d", "refs/heads/lazy/one") }},
		{"P9", "belongs to no task", func(r *rig, _ id.Task, _ store.Partition) { r.git("branch", "lazy/nobody") }},
		{"P9", "a workspace belongs to no task", func(r *rig, _ id.Task, _ store.Partition) {
			if err := os.MkdirAll(filepath.Join(r.paths.Dir, "tasks", "deadbeef"), 0o700); err != nil {
				r.t.Fatal(err)
			}
		}},
		{"P9", "left no record of its end", func(r *rig, _ id.Task, p store.Partition) { drop(r, p.Turn(2)) }},
		{"P11", "is not due at any time", func(r *rig, t id.Task, p store.Partition) {
			r.spoil(row(p.Outbox("x"), "job", app.Job{Kind: app.Notify, Task: t}))
		}},
	} {
		t.Run(c.promise+" "+c.says, func(t *testing.T) {
			req.Covers(t, c.promise)
			inBubble(t, func(t *testing.T, r *rig) {
				tid := r.started("one", work("done.txt", "done\n"))
				r.drained(tid)
				r.sound()
				r.sweeps, r.deliver = false, 0
				r.down()
				r.up()
				c.spoil(r, tid, store.For(tenant).Task(tid))
				got, err := r.app().CheckDeep(t.Context(), app.Call{Who: r.owner})
				if err != nil {
					t.Fatal(err)
				}
				seen := false
				for _, f := range got.Findings {
					seen = seen || f.Promise == c.promise && strings.Contains(f.Says, c.says)
				}
				if !seen {
					t.Errorf("it found only %+v", got.Findings)
				}
				r.host.mu.Lock()
				for _, s := range r.host.runs {
					if s.kill == nil {
						delete(r.host.runs, refOf(s.spec.Task, s.spec.Epoch))
					}
				}
				r.host.mu.Unlock()
			})
		})
	}
}

func lastHistory(r *rig, t id.Task, p store.Partition) store.Key {
	r.t.Helper()
	hs := rows[task.History](r, t, "HIS#")
	return p.History(hs[len(hs)-1].Version)
}
