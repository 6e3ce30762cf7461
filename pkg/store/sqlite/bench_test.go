package sqlite_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

// move is what a status change writes: the task, its history, its live row and
// its outbox row.
func move(t store.Tenant, task string, v int64) []store.Write {
	p := t.Task(id.Task(task))
	conds := []store.Cond{store.VersionIs(v)}
	if v == 0 {
		conds = []store.Cond{store.Absent()}
	}
	a := store.Attr{store.AttrType: "task", store.AttrVersion: v + 1, store.AttrStatus: "working", store.AttrEpoch: int64(1)}
	return []store.Write{
		{Act: store.Put, Item: store.Item{Key: p.Meta(), Attr: a, Doc: make([]byte, 1500)}, If: conds},
		{Act: store.Put, Item: store.Item{Key: p.History(v + 1), Attr: store.Attr{store.AttrType: "history"}, Doc: make([]byte, 300)}, If: []store.Cond{store.Absent()}},
		{Act: store.Put, Item: store.Item{Key: t.Project("p").Live(noon, id.Task(task)), Attr: a, Doc: make([]byte, 400)}},
		{Act: store.Put, Item: store.Item{
			Key: p.Outbox(fmt.Sprint(v + 1)), Attr: store.Attr{store.AttrType: "out"}, Doc: make([]byte, 200),
			Index: map[store.Index]store.Slot{store.Due: store.DueAt(p.Outbox(fmt.Sprint(v+1)), noon)},
		}},
	}
}

func BenchmarkTransactOne(b *testing.B) {
	s := fresh(b)
	t := store.For("t")
	for v := range int64(b.N) {
		if err := s.Transact(b.Context(), move(t, "aaaaaaaa-1", v)...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
}

func BenchmarkTransact32Wide(b *testing.B) {
	s := fresh(b)
	t := store.For("t")
	var next atomic.Int64
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		task := fmt.Sprintf("%08d-1", next.Add(1))
		for v := int64(0); pb.Next(); v++ {
			if err := s.Transact(b.Context(), move(t, task, v)...); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
}

func BenchmarkGet(b *testing.B) {
	s := fresh(b)
	t := store.For("t")
	if err := s.Transact(b.Context(), move(t, "aaaaaaaa-1", 0)...); err != nil {
		b.Fatal(err)
	}
	k := t.Task("aaaaaaaa-1").Meta()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(b.Context(), k); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPageOf100(b *testing.B) {
	s := fresh(b)
	t := store.For("t")
	for i := range 10_000 / 25 {
		var ws []store.Write
		for j := range 25 {
			ws = append(ws, move(t, fmt.Sprintf("%08d-1", i*25+j), 0)...)
		}
		if err := s.Transact(b.Context(), ws...); err != nil {
			b.Fatal(err)
		}
	}
	q := store.Query{PK: t.Project("p").PK, Prefix: "LIVE#", From: "", Limit: 100}
	for b.Loop() {
		if page, err := s.Query(b.Context(), q); err != nil || len(page.Items) != 100 {
			b.Fatal(len(page.Items), err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "store.db")
	for b.Loop() {
		s, err := sqlite.Open(b.Context(), path, time.Now)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
