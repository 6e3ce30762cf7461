package local_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// A team with hundreds of rows that are due, all of them older and none of them
// ever served, delays the only row of another team by a few visits.
func TestOneTeamsBacklogDoesNotDelayAnother(t *testing.T) {
	req.Covers(t, "SY-023", "B28")
	inBubble(t, func(t *testing.T, r *rig) {
		r.down()
		r.sweeps, r.deliver = false, 0
		r.up()
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		time.Sleep(10 * time.Second) // its outbox row is due
		const backlog = 400
		for i := range backlog {
			k := store.For("noisy").Task(idOf(fmt.Sprintf("0a%06d-0000-4000-8000-000000000000", i))).Outbox("bad")
			if err := r.now().db.Transact(t.Context(), store.Write{Act: store.Put, Item: store.Item{
				Key: k, Attr: store.Attr{store.AttrType: "job", "schema": int64(1)}, Doc: []byte(`{"kind":`),
				Index: map[store.Index]store.Slot{store.Due: store.DueAt(k, time.Now().Add(-time.Hour))},
			}}); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		others, served := 0, -1
		r.now().fuse.setHook(func(_ int, ws []store.Write) (bool, bool) {
			mu.Lock()
			defer mu.Unlock()
			for _, w := range ws {
				if strings.HasPrefix(w.Item.Key.PK, "T#noisy#") {
					others++
				} else if served < 0 {
					served = others
				}
			}
			return false, false
		})
		n, err := r.app().Sweep(t.Context(), 100)
		if err != nil || n != backlog+1 {
			t.Fatalf("%d rows were visited: %v", n, err)
		}
		r.now().fuse.setHook(nil)
		if served < 0 || served > 3 {
			t.Errorf("the other team was served after %d visits", served)
		}
		r.sweeps = true
		r.down()
		r.up()
		r.rest(tid, task.Blocked)
	})
}

// A pairing whose client is gone does not hold the task.
func TestAPairingWithoutItsClientComesToRest(t *testing.T) {
	req.Covers(t, "SY-008")
	for name, c := range map[string]struct {
		pending []task.Violation
		want    task.Status
	}{"nothing pending": {nil, task.Blocked}, "a protected file": {[]task.Violation{{Path: "deploy/run.sh"}}, task.Conflict}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				tid := r.started("one", func(s *sup) {
					s.begin()
					if len(c.pending) > 0 {
						s.write("deploy/run.sh", "echo two\n")
						if err := s.commit("deploy"); err != nil {
							s.die(1, err.Error())
						}
					}
					s.ok("")
				})
				r.until("it rests", func() bool { return !r.task(tid).Claimed })
				began := time.Now()
				r.force(tid, func(t *task.Task) { t.Status, t.Claimed, t.TurnBegan = task.Pairing, true, began })
				r.due(tid)
				time.Sleep(50 * time.Second)
				if got := r.task(tid); got.Status != task.Pairing {
					t.Fatalf("a client that was there a moment ago is held gone: %s", got.Status)
				}
				got := r.rest(tid, c.want)
				if d := time.Since(began); d < time.Minute || d > 3*time.Minute || got.Claimed {
					t.Errorf("it came to rest after %s, claimed %t", d, got.Claimed)
				}
			})
		})
	}
}
