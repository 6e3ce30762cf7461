package storetest_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
	"github.com/lazyplane/lazyplane/pkg/store/storetest"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, now func() time.Time) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var project = store.For("t").Project("p")

func must(t *testing.T, s store.Store, ws ...store.Write) {
	t.Helper()
	if err := s.Transact(t.Context(), ws...); err != nil {
		t.Fatal(err)
	}
}

func placed(sk, place string) store.Write {
	return store.Write{Act: store.Put, Item: store.Item{
		Key: project.Key(sk), Attr: store.Attr{"place": place}, Index: map[store.Index]store.Slot{store.Due: {PK: "D", SK: place}},
	}}
}

// shown lists an index as sort keys and places.
func shown(t *testing.T, s store.Store, q store.Query) []string {
	t.Helper()
	out := []string{}
	if err := store.All(t.Context(), s, q, func(it store.Item) bool {
		out = append(out, it.Key.SK+"@"+it.Index[store.Due].SK+"/"+it.Str("place"))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestIndexesLagByAKnownNumberOfTransactions(t *testing.T) {
	inner := open(t, func() time.Time { return noon })
	must(t, inner, placed("OLD", "5"))
	l := storetest.Lagging(inner)
	due := store.Query{Index: store.Due, PK: "D", Limit: 1}
	want := func(when string, want ...string) {
		t.Helper()
		for _, reverse := range []bool{false, true} {
			q := due
			q.Reverse = reverse
			got := shown(t, l, q)
			if reverse {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: the index shows %v, want %v", when, got, want)
			}
		}
	}
	want("what was there before the wrapper", "OLD@5/5")

	must(t, l, placed("NEW", "1"))
	must(t, l, placed("OLD", "9"))
	want("a creation and a move", "OLD@5/5")
	if it, err := l.Get(t.Context(), project.Key("NEW")); err != nil || it.Str("place") != "1" {
		t.Errorf("a get lags: %+v, %v", it, err)
	}
	if page, err := l.Query(t.Context(), store.Query{PK: project.PK}); err != nil || len(page.Items) != 2 {
		t.Errorf("a list lags: %+v, %v", page, err)
	}
	if err := l.Transact(t.Context(), store.Write{Act: store.Delete, Item: store.Item{Key: project.Key("NEW")}, If: []store.Cond{store.Absent()}}); err == nil {
		t.Fatal("a condition lags")
	}

	for i := range storetest.Behind - 1 {
		must(t, l, store.Write{Act: store.Put, Item: store.Item{Key: project.Key("X" + strconv.Itoa(i))}})
	}
	want("one transaction has come through", "NEW@1/1", "OLD@5/5")
	must(t, l, store.Write{Act: store.Delete, Item: store.Item{Key: project.Key("NEW")}})
	want("both have come through", "NEW@1/1", "OLD@9/9")
	l.Settle()
	want("settled", "OLD@9/9")
	must(t, l, placed("NEXT", "2"))
	want("behind again", "OLD@9/9")
	must(t, l, store.Write{Act: store.Delete, Item: store.Item{Key: project.Key("OLD")}})
	want("a deleted item still shows", "OLD@9/9")
	l.Settle()
	want("settled again", "NEXT@2/2")
}

func TestExpiredItemsStayInALaggingStore(t *testing.T) {
	now := noon
	plain, lagging := open(t, func() time.Time { return now }), open(t, func() time.Time { return now })
	l := storetest.Lagging(lagging)
	k := project.Key("GONE")
	for _, s := range []store.Store{plain, l} {
		must(t, s, store.Write{Act: store.Put, Item: store.Item{Key: k, Expires: noon.Add(time.Minute)}})
	}
	now = noon.Add(48 * time.Hour)
	for _, s := range []store.Store{plain, l} {
		must(t, s, store.Write{Act: store.Put, Item: store.Item{Key: project.Meta()}})
	}
	if _, err := plain.Get(t.Context(), k); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the plain store keeps it: %v", err)
	}
	if it, err := l.Get(t.Context(), k); err != nil || !it.Expires.Before(now) {
		t.Errorf("the lagging store dropped it: %+v, %v", it, err)
	}
}
