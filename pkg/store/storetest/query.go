package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/store"
)

func testQuery(t *testing.T, s *suite) {
	var ws []store.Write
	for _, sk := range []string{"A", "B#1", "B#2", "B#10", "B", "B$", "C#1", "b#1", "Bü", "B#\U0001F600", "B%x", "B_x"} {
		ws = append(ws, put(s.p.Key(sk), nil))
	}
	ws = append(ws, put(store.Key{PK: s.p.PK + "#OTHER", SK: "B#3"}, nil))
	s.must(t, ws...)
	for _, c := range []struct {
		q    store.Query
		want string
	}{
		{store.Query{}, "A B B#1 B#10 B#2 B#\U0001F600 B$ B%x B_x Bü C#1 b#1"},
		{store.Query{Prefix: "B#"}, "B#1 B#10 B#2 B#\U0001F600"},
		{store.Query{Prefix: "B"}, "B B#1 B#10 B#2 B#\U0001F600 B$ B%x B_x Bü"},
		{store.Query{Prefix: "B%"}, "B%x"},
		{store.Query{Prefix: "B_"}, "B_x"},
		{store.Query{Prefix: "Z"}, ""},
		{store.Query{From: "B#1"}, "B#1 B#10 B#2 B#\U0001F600 B$ B%x B_x Bü C#1 b#1"},
		{store.Query{To: "B#2"}, "A B B#1 B#10"},
		{store.Query{From: "B#1", To: "B#2"}, "B#1 B#10"},
		{store.Query{From: "B#2", To: "B#2"}, ""},
		{store.Query{From: "C", To: "B"}, ""},
		{store.Query{From: "B#1", To: "C#1"}, "B#1 B#10 B#2 B#\U0001F600 B$ B%x B_x Bü"},
	} {
		for _, limit := range []int{0, 1, 2, 3, 5} {
			for _, reverse := range []bool{false, true} {
				q := c.q
				q.PK, q.Limit, q.Reverse = s.p.PK, limit, reverse
				want := strings.Fields(c.want)
				if reverse {
					slices.Reverse(want)
				}
				if d := diff(want, s.list(t, q)); d != "" {
					t.Errorf("%+v (-want +got)\n%s", q, d)
				}
			}
		}
	}
	for _, q := range []store.Query{
		{}, {PK: s.p.PK, Index: "other"}, {PK: s.p.PK, Prefix: "a", From: "b"}, {PK: s.p.PK, Limit: -1}, {PK: s.p.PK, Prefix: "\xff"},
	} {
		if _, err := s.Query(t.Context(), q); err == nil {
			t.Errorf("%+v was answered", q)
		}
	}
}

func testPages(t *testing.T, s *suite) {
	var ws []store.Write
	for i := range 30 {
		ws = append(ws, store.Write{Act: store.Put, Item: store.Item{
			Key: s.p.Key("R#" + number(i)), Index: map[store.Index]store.Slot{store.Past: {PK: s.p.PK + "#P", SK: number(i)}},
		}})
	}
	s.must(t, ws...)
	for _, q := range []store.Query{{PK: s.p.PK}, {PK: s.p.PK + "#P", Index: store.Past}} {
		s.await(t, q, 30)
		for _, limit := range []int{7, 10, 30, 31, 5000} {
			for _, reverse := range []bool{false, true} {
				q.Limit, q.Reverse, q.Cursor = limit, reverse, ""
				n := 0
				for at := 0; ; at++ {
					page, err := s.Query(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					for _, it := range page.Items {
						want := n
						if reverse {
							want = 29 - n
						}
						if it.Key.SK != "R#"+number(want) {
							t.Fatalf("item %d is %s", n, it.Key.SK)
						}
						n++
					}
					if full := min(limit, 30-at*limit); len(page.Items) != full {
						t.Fatalf("limit %d: page %d has %d items, want %d", limit, at, len(page.Items), full)
					}
					if (page.Next == "") != (n == 30) {
						t.Fatalf("limit %d: after %d of 30 the next page is %q", limit, n, page.Next)
					}
					if page.Next == "" {
						break
					}
					q.Cursor = page.Next
				}
			}
		}
	}
}

func testCursor(t *testing.T, s *suite) {
	for i := range 6 {
		s.must(t, store.Write{Act: store.Put, Item: store.Item{
			Key: s.p.Key("R#" + number(i)), Index: map[store.Index]store.Slot{store.Find: {PK: s.p.PK, SK: "R#" + number(i)}},
		}})
	}
	s.await(t, store.Query{PK: s.p.PK, Index: store.Find}, 6)
	base := store.Query{PK: s.p.PK, Prefix: "R#", Limit: 2}
	page, err := s.Query(t.Context(), base)
	if err != nil || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	for name, change := range map[string]func(*store.Query){
		"partition": func(q *store.Query) { q.PK += "x" },
		"prefix":    func(q *store.Query) { q.Prefix = "R" },
		"range":     func(q *store.Query) { q.Prefix, q.From, q.To = "", "R#", "R$" },
		"order":     func(q *store.Query) { q.Reverse = true },
		"index":     func(q *store.Query) { q.Index = store.Find },
		"cut":       func(q *store.Query) { q.Cursor = q.Cursor[:len(q.Cursor)/2] },
		"noise":     func(q *store.Query) { q.Cursor = "!!" },
		"word":      func(q *store.Query) { q.Cursor = "bnVsbA" },
	} {
		q := base
		q.Cursor = page.Next
		change(&q)
		if _, err := s.Query(t.Context(), q); !errors.Is(err, store.ErrCursor) {
			t.Errorf("another %s: got %v, want ErrCursor", name, err)
		}
	}
	q := base
	q.Cursor, q.Limit = page.Next, 3
	page, err = s.Query(t.Context(), q)
	if err != nil || len(page.Items) != 3 || page.Items[0].Key.SK != "R#0002" {
		t.Errorf("another limit: %+v, %v", page, err)
	}
	// The item a cursor stands on may go.
	q.Cursor = page.Next
	s.must(t, store.Write{Act: store.Delete, Item: store.Item{Key: s.p.Key("R#0004")}})
	page, err = s.Query(t.Context(), q)
	if err != nil || len(page.Items) != 1 || page.Items[0].Key.SK != "R#0005" {
		t.Errorf("after the item under the cursor went: %+v, %v", page, err)
	}
}

// testCursorRace pages through rows that stay while writers put, move and
// remove the rows between them and change the staying ones.
func testCursorRace(t *testing.T, s *suite) {
	stay := s.o.Rows
	place := func(i int) store.Item {
		return store.Item{Key: s.p.Key("R#" + number(i)), Index: map[store.Index]store.Slot{store.Find: {PK: s.p.PK + "#F", SK: number(i)}}}
	}
	for i := 0; i < stay; {
		var ws []store.Write
		for ; i < stay && len(ws) < store.MaxWrites; i++ {
			ws = append(ws, store.Write{Act: store.Put, Item: place(2 * i)})
		}
		s.must(t, ws...)
	}
	s.await(t, store.Query{PK: s.p.PK + "#F", Index: store.Find}, stay)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		race(4, func(w int) {
			for n := w; ; n += 4 {
				select {
				case <-stop:
					return
				default:
				}
				between := 2*(n*7%stay) + 1
				if err := s.try(t,
					store.Write{Act: store.Update, Item: store.Item{Key: place(2 * (n % stay)).Key}, Add: map[string]int64{"n": 1}},
					store.Write{Act: store.Put, Item: place(between)},
				); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				if err := s.try(t, store.Write{Act: store.Delete, Item: store.Item{Key: place(between).Key}}); err != nil {
					t.Errorf("delete: %v", err)
					return
				}
			}
		})
	}()
	for round := range s.rounds(8) {
		for _, q := range []store.Query{{PK: s.p.PK, Prefix: "R#"}, {PK: s.p.PK + "#F", Index: store.Find}} {
			q.Limit, q.Reverse = 3+round%5, round%2 == 1
			got := s.list(t, q)
			if q.Reverse {
				slices.Reverse(got)
			}
			if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Fatalf("%+v: out of order or repeated: %v", q, got)
			}
			seen := map[string]bool{}
			for _, sk := range got {
				seen[sk] = true
			}
			for i := range stay {
				if !seen[place(2*i).Key.SK] {
					t.Fatalf("%+v: skipped %s", q, place(2*i).Key.SK)
				}
			}
		}
	}
	close(stop)
	<-done
}

func testHeavyPage(t *testing.T, s *suite) {
	const n, each = 8, 300_000
	for i := range n {
		s.must(t, store.Write{Act: store.Put, Item: store.Item{Key: s.p.Key("R#" + number(i)), Doc: make([]byte, each)}})
	}
	q := store.Query{PK: s.p.PK}
	total := 0
	for {
		page, err := s.Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if w := len(page.Items) * each; w > store.PageBytes+2*each {
			t.Fatalf("a page of %d bytes", w)
		}
		total += len(page.Items)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if total != n {
		t.Fatalf("%d of %d items", total, n)
	}
}

// await waits until the query shows n items.
func (s *suite) await(t testing.TB, q store.Query, n int) {
	t.Helper()
	if q.Index == "" {
		return
	}
	s.o.Await(t, s.Store, func() bool { return len(s.list(t, q)) == n })
}

// awaitList waits until the query shows exactly these sort keys.
func (s *suite) awaitList(t testing.TB, q store.Query, want ...string) {
	t.Helper()
	s.o.Await(t, s.Store, func() bool { return slices.Equal(s.list(t, q), want) })
}

func testIndex(t *testing.T, s *suite) {
	slot := func(pk, sk string) store.Slot { return store.Slot{PK: s.p.PK + "#" + pk, SK: sk} }
	q := func(x store.Index, pk string) store.Query { return store.Query{Index: x, PK: s.p.PK + "#" + pk} }
	a := store.Item{
		Key: s.p.Key("A"), Attr: store.Attr{"n": int64(1)}, Doc: []byte("doc"), Expires: time.Unix(4e9, 0).UTC(),
		Index: map[store.Index]store.Slot{store.Due: slot("D", "2"), store.Past: slot("P", "2"), store.Find: slot("F", "2")},
	}
	s.must(t, store.Write{Act: store.Put, Item: a}, put(s.p.Key("NOWHERE"), nil))
	s.must(t, store.Write{Act: store.Put, Item: store.Item{Key: s.p.Key("B"), Index: map[store.Index]store.Slot{store.Due: slot("D", "1")}}})
	s.awaitList(t, q(store.Due, "D"), "B", "A")
	s.awaitList(t, q(store.Past, "P"), "A")
	s.awaitList(t, q(store.Find, "F"), "A")
	s.awaitList(t, q(store.Past, "D"))
	s.o.Await(t, s.Store, func() bool {
		got, err := all(t.Context(), s, q(store.Past, "P"))
		if err != nil {
			t.Fatal(err)
		}
		return diff([]store.Item{a}, got) == ""
	})

	// Moved, left alone by an update that names no places, taken out, deleted.
	s.must(t, store.Write{Act: store.Update, Item: store.Item{Key: a.Key, Index: map[store.Index]store.Slot{store.Due: slot("D", "0"), store.Past: slot("Q", "1")}}})
	s.awaitList(t, q(store.Due, "D"), "A", "B")
	s.awaitList(t, q(store.Past, "P"))
	s.awaitList(t, q(store.Past, "Q"), "A")
	s.awaitList(t, q(store.Find, "F"))
	s.must(t, store.Write{Act: store.Update, Item: store.Item{Key: a.Key}, Set: store.Attr{"n": int64(9)}})
	s.o.Await(t, s.Store, func() bool {
		got, err := all(t.Context(), s, q(store.Past, "Q"))
		if err != nil {
			t.Fatal(err)
		}
		return len(got) == 1 && got[0].Int("n") == 9
	})
	s.awaitList(t, q(store.Due, "D"), "A", "B")
	s.must(t, store.Write{Act: store.Update, Item: store.Item{Key: a.Key, Index: map[store.Index]store.Slot{}}})
	s.awaitList(t, q(store.Due, "D"), "B")
	s.awaitList(t, q(store.Past, "Q"))
	s.must(t, store.Write{Act: store.Delete, Item: store.Item{Key: s.p.Key("B")}})
	s.awaitList(t, q(store.Due, "D"))
	s.must(t, store.Write{Act: store.Put, Item: a})
	s.awaitList(t, q(store.Find, "F"), "A")
	s.must(t, put(a.Key, nil))
	s.awaitList(t, q(store.Find, "F"))

	// A refused transaction moves nothing.
	conflict(t, s.Transact(t.Context(), store.Write{Act: store.Put, Item: a}, put(s.p.Key("X"), nil, store.Present())))
	s.awaitList(t, q(store.Find, "F"))
}

func testIndexTies(t *testing.T, s *suite) {
	for _, sk := range []string{"C", "A", "B"} {
		s.must(t, store.Write{Act: store.Put, Item: store.Item{Key: s.p.Key(sk), Index: map[store.Index]store.Slot{store.Due: {PK: s.p.PK + "#D", SK: "same"}}}})
	}
	for _, reverse := range []bool{false, true} {
		q := store.Query{Index: store.Due, PK: s.p.PK + "#D", Limit: 1, Reverse: reverse}
		s.o.Await(t, s.Store, func() bool {
			got := s.list(t, q)
			slices.Sort(got)
			return slices.Equal(got, []string{"A", "B", "C"})
		})
	}
}

func testDue(t *testing.T, s *suite) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	want := map[string]time.Time{}
	for i := range 12 {
		k := s.t.Project(fmt.Sprintf("due%02d", i)).Meta()
		at := noon.Add(time.Duration(i-6) * time.Nanosecond)
		s.must(t, store.Write{Act: store.Put, Item: store.Item{Key: k, Index: map[store.Index]store.Slot{store.Due: store.DueAt(k, at)}}})
		if !at.After(noon) {
			want[k.PK] = at
		}
	}
	s.o.Await(t, s.Store, func() bool {
		n := 0
		for shard := range store.Shards {
			var last time.Time
			cursor := ""
			for {
				page, err := store.DueRows(t.Context(), s, shard, noon, 2, cursor)
				if err != nil {
					t.Fatal(err)
				}
				for _, it := range page.Items {
					if store.TenantOf(it.Key) != s.t.Name() {
						continue
					}
					at, ok := store.DueTime(it.Index[store.Due])
					if !ok || !at.Equal(want[it.Key.PK]) || at.Before(last) {
						t.Fatalf("%s is due %v, want %v, after %v", it.Key, at, want[it.Key.PK], last)
					}
					last = at
					n++
				}
				if cursor = page.Next; cursor == "" {
					break
				}
			}
		}
		return n == len(want)
	})
}
