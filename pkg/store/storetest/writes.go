package storetest

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/store"
)

func testRoundTrip(t *testing.T, s *suite) {
	doc := make([]byte, 256)
	for i := range doc {
		doc[i] = byte(i)
	}
	for name, it := range map[string]store.Item{
		"bare":    {},
		"texts":   {Attr: store.Attr{"status": "working", "empty": "", "odd": "a\"b\\c\n<&>ü☃\U0001F600", "zero": "a\x00b"}},
		"numbers": {Attr: store.Attr{"version": int64(7), "least": int64(math.MinInt64), "most": int64(math.MaxInt64), "none": int64(0)}},
		"flags":   {Attr: store.Attr{"yes": true, "no": false}},
		"doc":     {Attr: store.Attr{store.AttrType: "x"}, Doc: doc},
		"large":   {Doc: make([]byte, 300_000)},
		"placed": {Index: map[store.Index]store.Slot{
			store.Due: {PK: s.p.PK + "#D", SK: "1"}, store.Past: {PK: s.p.PK + "#P", SK: "2"}, store.Find: {PK: s.p.PK + "#F", SK: "3"},
		}},
		"key ü#☃ \"'%_?": {Attr: store.Attr{"a name with spaces-and.dots #:": "v"}},
		"expires":        {Expires: time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)},
	} {
		it.Key = s.p.Key(name)
		s.must(t, store.Write{Act: store.Put, Item: it})
		s.want(t, it)
	}
}

func testNotFound(t *testing.T, s *suite) {
	if _, err := s.Get(t.Context(), s.p.Meta()); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("got %v, want ErrNotFound", err)
	}
	s.must(t, put(s.p.Meta(), nil))
	s.must(t, store.Write{Act: store.Delete, Item: store.Item{Key: s.p.Meta()}})
	if _, err := s.Get(t.Context(), s.p.Meta()); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("after a delete: got %v, want ErrNotFound", err)
	}
}

func testConditions(t *testing.T, s *suite) {
	there, gone := s.p.Key("THERE"), s.p.Key("GONE")
	s.must(t, put(there, store.Attr{
		store.AttrVersion: int64(5), store.AttrEpoch: int64(2), store.AttrStatus: "working", "flag": true, "name": "m", "neg": int64(-3),
	}))
	for i, c := range []struct {
		k    store.Key
		cond store.Cond
		want bool
	}{
		{there, store.Absent(), false},
		{gone, store.Absent(), true},
		{there, store.Present(), true},
		{gone, store.Present(), false},
		{there, store.VersionIs(5), true},
		{there, store.VersionIs(6), false},
		{gone, store.VersionIs(0), false},
		{there, store.EpochIs(2), true},
		{there, store.EpochIs(1), false},
		{there, store.StatusIn("idle", "working"), true},
		{there, store.StatusIn("idle"), false},
		{there, store.Cond{Op: store.OpIn, Field: "version", Set: []string{"5"}}, false},
		{gone, store.StatusIn("idle"), false},
		{there, store.FieldIs("flag", true), true},
		{there, store.FieldIs("flag", false), false},
		{there, store.FieldIs("name", "m"), true},
		{there, store.FieldIs("name", "M"), false},
		{there, store.FieldIs("missing", ""), false},
		{there, store.FieldIs("version", "5"), false},
		{there, store.FieldNot("name", "m"), false},
		{there, store.FieldNot("name", "n"), true},
		{there, store.FieldNot("missing", "n"), true},
		{there, store.FieldNot("version", "5"), true},
		{gone, store.FieldNot("name", "m"), true},
		{there, store.FieldLess("version", int64(6)), true},
		{there, store.FieldLess("version", int64(5)), false},
		{there, store.FieldLess("version", int64(10)), true},
		{there, store.FieldLess("neg", int64(-2)), true},
		{there, store.FieldLess("neg", int64(-10)), false},
		{there, store.FieldLess("name", "n"), true},
		{there, store.FieldLess("name", "m"), false},
		{there, store.FieldLess("name", int64(1)), false},
		{there, store.FieldLess("version", "9"), false},
		{there, store.FieldLess("missing", int64(9)), false},
		{gone, store.FieldLess("version", int64(9)), false},
	} {
		check := store.Write{Act: store.Check, Item: store.Item{Key: c.k}, If: []store.Cond{c.cond}}
		mark := s.p.Key("MARK#" + number(i))
		for name, ws := range map[string][]store.Write{
			"alone":   {check},
			"company": {put(mark, nil), check},
			"joined":  {{Act: store.Check, Item: store.Item{Key: c.k}, If: []store.Cond{c.cond, c.cond}}},
		} {
			err := s.Transact(t.Context(), ws...)
			if c.want && err != nil {
				t.Errorf("%s: %+v on %s: %v", name, c.cond, c.k.SK, err)
			}
			if !c.want {
				e := conflict(t, err)
				if d := diff(c.cond, e.Failed); d != "" {
					t.Errorf("%s: failed condition (-want +got)\n%s", name, d)
				}
				if want := len(ws) - 1; e.Write != want || e.Key != c.k {
					t.Errorf("%s: refused write %d on %s, want %d on %s", name, e.Write, e.Key, want, c.k)
				}
			}
		}
		if _, ok := s.get(t, mark); ok != c.want {
			t.Errorf("%+v on %s: its neighbour was written: %v", c.cond, c.k.SK, ok)
		}
	}
}

func testConflict(t *testing.T, s *suite) {
	k := s.p.Meta()
	winner := store.Item{
		Key: k, Attr: store.Attr{store.AttrVersion: int64(3), store.AttrStatus: "merging", "who": "ada"}, Doc: []byte("won"),
		Index:   map[store.Index]store.Slot{store.Due: {PK: s.p.PK + "#D", SK: "9"}},
		Expires: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	s.must(t, store.Write{Act: store.Put, Item: winner})
	absent := s.p.Key("NONE")
	loser := map[string]store.Write{
		"put":    put(k, store.Attr{"who": "bob"}, store.VersionIs(2)),
		"update": {Act: store.Update, Item: store.Item{Key: k}, Set: store.Attr{"who": "bob"}, If: []store.Cond{store.StatusIn("merging"), store.VersionIs(2)}},
		"delete": {Act: store.Delete, Item: store.Item{Key: k}, If: []store.Cond{store.VersionIs(2)}},
		"check":  {Act: store.Check, Item: store.Item{Key: k}, If: []store.Cond{store.VersionIs(2)}},
	}
	for name, w := range loser {
		for _, ws := range [][]store.Write{{w}, {put(s.p.Key("A"), nil), put(s.p.Key("B"), nil), w, put(s.p.Key("C"), nil, store.Present())}} {
			e := conflict(t, s.Transact(t.Context(), ws...))
			at := 0
			if len(ws) > 1 {
				at = 2
			}
			if e.Write != at || e.Key != k {
				t.Errorf("%s of %d: refused write %d on %s, want %d on %s", name, len(ws), e.Write, e.Key, at, k)
			}
			if d := diff(winner, e.Current); d != "" {
				t.Errorf("%s of %d: who won (-want +got)\n%s", name, len(ws), d)
			}
			if d := diff(store.VersionIs(2), e.Failed); d != "" {
				t.Errorf("%s of %d: condition (-want +got)\n%s", name, len(ws), d)
			}
		}
	}
	for _, ws := range [][]store.Write{{put(absent, nil, store.Present())}, {put(s.p.Key("A"), nil), put(absent, nil, store.Present())}} {
		e := conflict(t, s.Transact(t.Context(), ws...))
		if e.Current.Attr != nil || e.Key != absent || e.Write != len(ws)-1 {
			t.Errorf("an absent item: %+v", e)
		}
	}
	s.want(t, winner)
	s.absent(t, s.p.Key("A"))
}

func testActs(t *testing.T, s *suite) {
	k := s.p.Meta()
	slot := func(sk string) store.Slot { return store.Slot{PK: s.p.PK + "#X", SK: sk} }
	first := store.Item{
		Key: k, Attr: store.Attr{"a": "1", "n": int64(1), "b": true}, Doc: []byte("one"),
		Index: map[store.Index]store.Slot{store.Due: slot("1"), store.Find: slot("1")}, Expires: time.Unix(4e9, 0).UTC(),
	}
	s.must(t, store.Write{Act: store.Put, Item: first})

	s.must(t, store.Write{Act: store.Update, Item: store.Item{Key: k}, Set: store.Attr{"a": "2", "c": "new"}, Add: map[string]int64{"n": 4, "m": -2}, Unset: []string{"b", "never"}})
	want := first
	want.Attr = store.Attr{"a": "2", "c": "new", "n": int64(5), "m": int64(-2)}
	s.want(t, want)

	want.Doc, want.Index, want.Expires = []byte("two"), map[store.Index]store.Slot{store.Past: slot("2")}, time.Unix(5e9, 0).UTC()
	s.must(t, store.Write{Act: store.Update, Item: store.Item{Key: k, Doc: want.Doc, Index: want.Index, Expires: want.Expires}})
	s.want(t, want)

	want.Doc, want.Index = nil, nil
	s.must(t, store.Write{Act: store.Update, Item: store.Item{Key: k, Doc: []byte{}, Index: map[store.Index]store.Slot{}}})
	s.want(t, want)

	s.must(t, store.Write{Act: store.Update, Item: store.Item{Key: k}, Set: store.Attr{"n": "text"}})
	want.Attr["n"] = "text"
	s.want(t, want)

	fresh := s.p.Key("FRESH")
	s.must(t, store.Write{Act: store.Update, Item: store.Item{Key: fresh, Doc: []byte("d")}, Set: store.Attr{"s": "x"}, Add: map[string]int64{"n": 3}})
	s.want(t, store.Item{Key: fresh, Attr: store.Attr{"s": "x", "n": int64(3)}, Doc: []byte("d")})
	empty := s.p.Key("EMPTY")
	s.must(t, store.Write{Act: store.Update, Item: store.Item{Key: empty}})
	s.must(t, store.Write{Act: store.Update, Item: store.Item{Key: empty}}, store.Write{Act: store.Update, Item: store.Item{Key: s.p.Key("EMPTY2")}})
	s.want(t, store.Item{Key: empty})
	s.want(t, store.Item{Key: s.p.Key("EMPTY2")})

	s.must(t, put(k, store.Attr{"only": "this"}))
	s.want(t, store.Item{Key: k, Attr: store.Attr{"only": "this"}})

	s.must(t, store.Write{Act: store.Check, Item: store.Item{Key: k}, If: []store.Cond{store.Present()}})
	s.want(t, store.Item{Key: k, Attr: store.Attr{"only": "this"}})

	s.must(t, store.Write{Act: store.Delete, Item: store.Item{Key: k}, If: []store.Cond{store.FieldIs("only", "this")}})
	s.absent(t, k)
	s.must(t, store.Write{Act: store.Delete, Item: store.Item{Key: k}})

	// All four acts in one transaction.
	s.must(t,
		put(k, store.Attr{"v": int64(1)}, store.Absent()),
		store.Write{Act: store.Update, Item: store.Item{Key: fresh}, Add: map[string]int64{"n": 1}, If: []store.Cond{store.FieldIs("n", int64(3))}},
		store.Write{Act: store.Delete, Item: store.Item{Key: empty}, If: []store.Cond{store.Present()}},
		store.Write{Act: store.Check, Item: store.Item{Key: s.p.Key("EMPTY2")}, If: []store.Cond{store.Present()}},
	)
	s.want(t, store.Item{Key: k, Attr: store.Attr{"v": int64(1)}})
	s.want(t, store.Item{Key: fresh, Attr: store.Attr{"s": "x", "n": int64(4)}, Doc: []byte("d")})
	s.absent(t, empty)
}

func testAtomic(t *testing.T, s *suite) {
	old, doomed, guard := s.p.Key("OLD"), s.p.Key("DOOMED"), s.p.Key("GUARD")
	s.must(t, put(old, store.Attr{"n": int64(1)}), put(doomed, nil), put(guard, store.Attr{store.AttrVersion: int64(1)}))
	for at := range 4 {
		ws := []store.Write{
			put(s.p.Key("NEW"), nil, store.Absent()),
			{Act: store.Update, Item: store.Item{Key: old, Index: map[store.Index]store.Slot{store.Due: {PK: s.p.PK + "#D", SK: "1"}}}, Add: map[string]int64{"n": 1}},
			{Act: store.Delete, Item: store.Item{Key: doomed}},
		}
		no := store.Write{Act: store.Check, Item: store.Item{Key: guard}, If: []store.Cond{store.VersionIs(2)}}
		ws = append(ws[:at], append([]store.Write{no}, ws[at:]...)...)
		if e := conflict(t, s.Transact(t.Context(), ws...)); e.Write != at {
			t.Errorf("refused write %d, want %d", e.Write, at)
		}
	}
	s.absent(t, s.p.Key("NEW"))
	s.want(t, store.Item{Key: old, Attr: store.Attr{"n": int64(1)}})
	s.want(t, store.Item{Key: doomed})
}

// testInvalid covers what only the stored item can show to be impossible.
func testInvalid(t *testing.T, s *suite) {
	k := s.p.Meta()
	s.must(t, put(k, store.Attr{"s": "text"}))
	add := store.Write{Act: store.Update, Item: store.Item{Key: k}, Add: map[string]int64{"s": 1}}
	for _, ws := range [][]store.Write{{add}, {put(s.p.Key("NEW"), nil), add}} {
		err := s.Transact(t.Context(), ws...)
		if _, is := errors.AsType[*store.ConflictError](err); err == nil || is {
			t.Fatalf("adding to a text: %v", err)
		}
	}
	s.want(t, store.Item{Key: k, Attr: store.Attr{"s": "text"}})
	s.absent(t, s.p.Key("NEW"))
}

func testLimits(t *testing.T, s *suite) {
	many := func(n int) (ws []store.Write) {
		for i := range n {
			ws = append(ws, put(s.p.Key("M#"+number(i)), nil))
		}
		return ws
	}
	s.must(t, many(store.MaxWrites)...)
	if got := len(s.list(t, store.Query{PK: s.p.PK, Prefix: "M#"})); got != store.MaxWrites {
		t.Fatalf("%d of %d writes", got, store.MaxWrites)
	}
	k := s.p.Key("BAD")
	heavy := func(n, bytes int) (ws []store.Write) {
		for i := range n {
			ws = append(ws, store.Write{Act: store.Put, Item: store.Item{Key: s.p.Key("H#" + number(i)), Doc: make([]byte, bytes)}})
		}
		return ws
	}
	for name, ws := range map[string][]store.Write{
		"none":                nil,
		"too many":            many(store.MaxWrites + 1),
		"twice one key":       {put(k, nil), put(k, nil)},
		"no tenant":           {put(store.Key{PK: "X", SK: "Y"}, nil)},
		"no sort key":         {put(store.Key{PK: s.p.PK}, nil)},
		"long sort key":       {put(s.p.Key(strings.Repeat("x", store.MaxSK+1)), nil)},
		"bad text":            {put(k, store.Attr{"s": "\xff"})},
		"bad key":             {put(s.p.Key("\xff"), nil)},
		"a float":             {put(k, store.Attr{"f": 1.5})},
		"an int":              {put(k, store.Attr{"f": 1})},
		"a nil":               {put(k, store.Attr{"f": nil})},
		"reserved":            {put(k, store.Attr{"ttl": int64(1)})},
		"heavy item":          heavy(1, store.MaxItem+1),
		"heavy transaction":   heavy(11, store.MaxItem-100),
		"check of nothing":    {{Act: store.Check, Item: store.Item{Key: k}}},
		"delete with doc":     {{Act: store.Delete, Item: store.Item{Key: k, Doc: []byte("x")}}},
		"put with set":        {{Act: store.Put, Item: store.Item{Key: k}, Set: store.Attr{"a": "b"}}},
		"update with attr":    {{Act: store.Update, Item: store.Item{Key: k, Attr: store.Attr{"a": "b"}}}},
		"set and add":         {{Act: store.Update, Item: store.Item{Key: k}, Set: store.Attr{"a": int64(1)}, Add: map[string]int64{"a": 1}}},
		"set and unset":       {{Act: store.Update, Item: store.Item{Key: k}, Set: store.Attr{"a": int64(1)}, Unset: []string{"a"}}},
		"unknown act":         {{Act: "merge", Item: store.Item{Key: k}}},
		"unknown condition":   {put(k, nil, store.Cond{Op: "like", Field: "a", Value: "b"})},
		"among nothing":       {put(k, nil, store.StatusIn())},
		"order of flags":      {put(k, nil, store.FieldLess("a", true))},
		"unknown index":       {{Act: store.Put, Item: store.Item{Key: k, Index: map[store.Index]store.Slot{"other": {PK: "a", SK: "b"}}}}},
		"half a place":        {{Act: store.Put, Item: store.Item{Key: k, Index: map[store.Index]store.Slot{store.Due: {PK: "a"}}}}},
		"condition on an int": {put(k, nil, store.FieldIs("a", 1))},
	} {
		ws = append([]store.Write{}, ws...)
		err := s.Transact(t.Context(), ws...)
		if _, is := errors.AsType[*store.ConflictError](err); err == nil || is {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.absent(t, k)
	if got := s.list(t, store.Query{PK: s.p.PK, Prefix: "H#"}); len(got) != 0 {
		t.Errorf("%d heavy items were written", len(got))
	}
}

func testExpiry(t *testing.T, s *suite) {
	k := s.p.Meta()
	at := time.Date(2100, 5, 6, 7, 8, 9, 1, time.FixedZone("x", 3600))
	s.must(t, store.Write{Act: store.Put, Item: store.Item{Key: k, Expires: at}})
	if it, _ := s.get(t, k); !it.Expires.Equal(at.Truncate(time.Second).Add(time.Second)) {
		t.Errorf("expires %v, want %v rounded up", it.Expires, at)
	}
	s.must(t, store.Write{Act: store.Update, Item: store.Item{Key: k}, Set: store.Attr{"a": "b"}})
	if it, _ := s.get(t, k); it.Expires.IsZero() {
		t.Error("an update without an expiry removed it")
	}
	s.must(t, put(k, nil))
	if it, _ := s.get(t, k); !it.Expires.IsZero() {
		t.Error("a put without an expiry kept the old one")
	}
	// An item past its time is still an item to every condition that finds it.
	s.must(t, store.Write{Act: store.Put, Item: store.Item{Key: k, Attr: store.Attr{"a": "b"}, Expires: time.Unix(1, 0)}})
	if it, ok := s.get(t, k); ok {
		if e := conflict(t, s.Transact(t.Context(), put(k, nil, store.Absent()))); diff(it, e.Current) != "" {
			t.Errorf("an expired item: %+v", e)
		}
	}
}

func testContext(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Transact(ctx, put(s.p.Meta(), nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("transact: %v", err)
	}
	if _, err := s.Get(ctx, s.p.Meta()); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Query(ctx, store.Query{PK: s.p.PK}); !errors.Is(err, context.Canceled) {
		t.Errorf("query: %v", err)
	}
	s.absent(t, s.p.Meta())
}
