package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// counted is what one story asked of the services that charge by use. What people
// pay for it is worked out by integration/cost.
type counted struct {
	WriteUnits  int     `json:"write_units"`
	ReadUnits   float64 `json:"read_units"`
	Steps       int     `json:"steps"`
	OutboxRows  int     `json:"outbox_rows"`
	RunnerCalls int     `json:"runner_calls"`
}

// reader counts read units beside what meter counts: one for each begun 4 KB of a
// consistent read, half of that through an index. Rows of the flow engine are not
// counted, which Step Functions keeps when hosted.
type reader struct {
	*meter

	mu     sync.Mutex
	units  float64
	outbox int
}

func begun4KB(n int) float64 { return float64(max(1, (n+4095)/4096)) }

func (r *reader) Get(ctx context.Context, k store.Key) (store.Item, error) {
	it, err := r.Store.Get(ctx, k)
	if !strings.HasSuffix(k.PK, "#FLW") {
		r.mu.Lock()
		r.units += begun4KB(it.Weight())
		r.mu.Unlock()
	}
	return it, err
}

func (r *reader) Query(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := r.Store.Query(ctx, q)
	if strings.HasSuffix(q.PK, "#FLW") {
		return page, err
	}
	size := 0
	for _, it := range page.Items {
		size += it.Weight()
	}
	units := begun4KB(size)
	if q.Index != "" {
		// The index has keys alone; the rows are read one by one.
		units /= 2
		for _, it := range page.Items {
			units += begun4KB(it.Weight())
		}
	}
	r.mu.Lock()
	r.units += units
	r.mu.Unlock()
	return page, err
}

func (r *reader) Transact(ctx context.Context, ws ...store.Write) error {
	err := r.meter.Transact(ctx, ws...)
	if err == nil {
		r.mu.Lock()
		for _, w := range ws {
			if marked, _ := w.Item.Attr[store.AttrFollow].(bool); w.Act == store.Put && (marked || store.IsOutbox(w.Item.Key)) {
				r.outbox++
			}
		}
		r.mu.Unlock()
	}
	return err
}

// tally runs one task from create to accept with a turn of a given length.
func tally(t *testing.T, length time.Duration) (got counted) {
	t.Helper()
	inBubble(t, func(t *testing.T, r *rig) {
		r.down()
		m := &reader{meter: &meter{by: map[string]int{}}}
		r.sweeps = false // it reads on its own account, whoever works
		r.wrap = func(s store.Store) store.Store { m.Store = s; return m }
		r.up()
		var mu sync.Mutex
		r.host.watch(func(string) { mu.Lock(); got.Steps++; mu.Unlock() })
		m.reset()
		m.units, m.outbox = 0, 0
		tid := r.create("one")
		r.host.next(func(s *sup) {
			s.begin()
			s.write("new.txt", "work\n")
			if err := s.commit("work"); err != nil {
				s.die(1, err.Error())
			}
			if length > 0 {
				s.goOn(length)
			}
			s.ok("done")
		})
		r.do("startTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		r.drained(tid)
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
		r.drained(tid)
		got.WriteUnits = m.spent()
		m.mu.Lock()
		defer m.mu.Unlock()
		got.ReadUnits, got.OutboxRows = m.units, m.outbox
	})
	return got
}

// What a task and an hour of a turn ask for is written to a file, and may not grow
// beyond it unseen. UPDATE=1 writes it anew.
func TestWhatATaskAsksOfTheServicesIsWrittenDown(t *testing.T) {
	short, hour := tally(t, 0), tally(t, time.Hour)
	const beats = int(time.Hour / (15 * time.Second))
	short.RunnerCalls = 4 // hello, first beat, commit, report
	hour.RunnerCalls = short.RunnerCalls + beats
	more := counted{
		WriteUnits: hour.WriteUnits - short.WriteUnits, ReadUnits: hour.ReadUnits - short.ReadUnits,
		Steps: hour.Steps - short.Steps, OutboxRows: hour.OutboxRows - short.OutboxRows, RunnerCalls: beats,
	}
	got := map[string]counted{"task": short, "hour": more}
	file := filepath.Join("..", "..", "..", "integration", "cost", "counted.json")
	raw, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	raw = append(raw, '\n')
	t.Logf("%s", raw)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(have, raw) {
		return
	}
	var want map[string]counted
	if err := json.Unmarshal(have, &want); err != nil {
		t.Fatal(err)
	}
	for name, g := range got {
		w := want[name]
		if g.WriteUnits > w.WriteUnits || g.ReadUnits > w.ReadUnits*1.05 || g.Steps > w.Steps || g.OutboxRows > w.OutboxRows {
			t.Errorf("%s asks for more than %s says: %+v, %+v; docs/cost.md is worked out from it", name, file, g, w)
		}
	}
}
