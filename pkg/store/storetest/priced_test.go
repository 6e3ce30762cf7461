package storetest_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/storetest"
)

func TestRequestsArePricedAsPublished(t *testing.T) {
	b := storetest.Priced(open(t, func() time.Time { return noon }))
	item := func(sk string, kb int) store.Item {
		it := store.Item{Key: project.Key(sk), Attr: store.Attr{}}
		it.Doc = make([]byte, kb*1024-it.Size()-len("doc"))
		if _, err := rand.Read(it.Doc); err != nil { // nothing that could be packed
			t.Fatal(err)
		}
		it.Doc[0] = '{'
		return it
	}
	put := func(it store.Item) store.Write { return store.Write{Act: store.Put, Item: it} }
	touch := store.Write{Act: store.Update, Item: store.Item{Key: project.Key("A")}, Set: store.Attr{"a": "b"}}
	placed := item("P", 2)
	placed.Index = map[store.Index]store.Slot{store.Due: {PK: "D", SK: "1"}}
	moved := placed
	moved.Index = map[store.Index]store.Slot{store.Due: {PK: "D", SK: "2"}}
	refused := put(item("A", 1))
	refused.If = []store.Cond{store.Absent()}
	del := func(sk string) store.Write {
		return store.Write{Act: store.Delete, Item: store.Item{Key: project.Key(sk)}}
	}
	for _, c := range []struct {
		name string
		ws   []store.Write
		want float64
	}{
		{"one KB", []store.Write{put(item("A", 1))}, 1},
		{"three KB", []store.Write{put(item("B", 3))}, 3},
		{"smaller than it was", []store.Write{put(item("B", 1))}, 3},
		{"a little more than a KB", []store.Write{touch}, 2},
		{"two in a transaction", []store.Write{put(item("A", 1)), put(item("B", 1))}, 2 * (2 + 1)},
		{"a refusal", []store.Write{refused}, 1},
		{"a delete", []store.Write{del("B")}, 1},
		{"a delete of nothing", []store.Write{del("B")}, 1},
		{"a check", []store.Write{{Act: store.Check, Item: store.Item{Key: project.Key("A")}, If: []store.Cond{store.Present()}}}, 2},
		{"into an index", []store.Write{put(placed)}, 3 + 1},
		{"again", []store.Write{put(placed)}, 3},
		{"moved in it", []store.Write{put(moved)}, 3 + 2},
		{"out of it", []store.Write{put(item("P", 2))}, 3 + 1},
	} {
		err := b.Transact(t.Context(), c.ws...)
		if (err != nil) != (c.name == "a refusal") {
			t.Fatalf("%s: %v", c.name, err)
		}
		if _, write := b.Units(); write != c.want {
			t.Errorf("%s: %v units, want %v", c.name, write, c.want)
		}
	}
	must(t, b, put(item("R#1", 3)), put(item("R#2", 3)))
	b.Units()
	if _, err := b.Get(t.Context(), project.Key("R#1")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Query(t.Context(), store.Query{PK: project.PK, Prefix: "R#"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Query(t.Context(), store.Query{PK: project.PK, Index: store.Due}); err != nil {
		t.Fatal(err)
	}
	if read, write := b.Units(); read != 1+2+0.5 || write != 0 {
		t.Errorf("%v read, %v written", read, write)
	}
}
