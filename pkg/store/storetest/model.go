package storetest

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lazyplane/lazyplane/pkg/store"
)

// model is the whole table as a map, in the plainest words.
type model map[store.Key]store.Item

// transact answers as the port promises: nil, or the position of the first
// refused write and the item that refused it.
func (m model) transact(ws []store.Write) (refused int, current store.Item) {
	next := maps.Clone(m)
	for i, w := range ws {
		k := w.Item.Key
		it, exists := m[k]
		for _, c := range w.If {
			if !holds(c, it, exists) {
				return i, it
			}
		}
		switch w.Act {
		case store.Check: // changes nothing
		case store.Put:
			next[k] = normal(w.Item)
		case store.Delete:
			delete(next, k)
		case store.Update:
			if !exists {
				it = store.Item{Key: k}
			}
			a := store.Attr{}
			for name, v := range it.Attr {
				if !slices.Contains(w.Unset, name) {
					a[name] = v
				}
			}
			maps.Copy(a, w.Set)
			for name, by := range w.Add {
				n, _ := a[name].(int64)
				a[name] = n + by
			}
			it.Attr = a
			if w.Item.Doc != nil {
				it.Doc = w.Item.Doc
			}
			if w.Item.Index != nil {
				it.Index = w.Item.Index
			}
			if !w.Item.Expires.IsZero() {
				it.Expires = w.Item.Expires
			}
			next[k] = normal(it)
		}
	}
	clear(m)
	maps.Copy(m, next)
	return -1, store.Item{}
}

func normal(it store.Item) store.Item {
	if it.Attr == nil {
		it.Attr = store.Attr{}
	}
	return it
}

// holds repeats the meaning of the conditions independently of store.Cond.Holds,
// which the adapters use.
func holds(c store.Cond, it store.Item, exists bool) bool {
	v, has := it.Attr[c.Field]
	switch c.Op {
	case store.OpAbsent:
		return !exists
	case store.OpPresent:
		return exists
	case store.OpEqual:
		return has && v == c.Value
	case store.OpNotEqual:
		return !has || v != c.Value
	case store.OpIn:
		text, is := v.(string)
		return has && is && slices.Contains(c.Set, text)
	case store.OpLess:
		if a, ok := v.(int64); ok {
			b, ok := c.Value.(int64)
			return ok && a < b
		}
		if a, ok := v.(string); ok {
			b, ok := c.Value.(string)
			return ok && a < b
		}
	}
	return false
}

func (m model) query(q store.Query) []store.Item {
	type row struct {
		at string
		it store.Item
	}
	var rows []row
	for _, it := range m {
		pk, sk := it.Key.PK, it.Key.SK
		if q.Index != "" {
			s, ok := it.Index[q.Index]
			if !ok {
				continue
			}
			pk, sk = s.PK, s.SK
		}
		if pk != q.PK || !strings.HasPrefix(sk, q.Prefix) || sk < q.From || (q.To != "" && sk >= q.To) {
			continue
		}
		rows = append(rows, row{sk, it})
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.at, b.at) })
	if q.Reverse {
		slices.Reverse(rows)
	}
	out := []store.Item{}
	for _, r := range rows {
		out = append(out, r.it)
	}
	return out
}

// draws generates inputs small enough to collide.
type draws struct{ p store.Partition }

func (d draws) key(t *rapid.T) store.Key {
	return d.p.Key(rapid.SampledFrom([]string{"A", "B", "C#1", "C#2", "C#3", "D"}).Draw(t, "sk"))
}

// value gives x and y numbers and texts in turn, and z flags: an emulator written
// in Python takes true for 1.
func (d draws) value(t *rapid.T, name string) any {
	if name == "z" {
		return rapid.Bool().Draw(t, "flag")
	}
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(-2, 3), func(n int64) any { return n }),
		rapid.Map(rapid.SampledFrom([]string{"", "a", "b"}), func(s string) any { return s }),
	).Draw(t, "value")
}

func (d draws) attrs(t *rapid.T) store.Attr {
	a := store.Attr{}
	for range rapid.IntRange(0, 2).Draw(t, "attrs") {
		name := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name")
		a[name] = d.value(t, name)
	}
	if rapid.Bool().Draw(t, "counted") {
		a["n"] = rapid.Int64Range(0, 3).Draw(t, "n")
	}
	return a
}

// places gives each item a sort key of its own in an index, because the order of
// equal ones is an adapter's own affair.
func (d draws) places(t *rapid.T, k store.Key) map[store.Index]store.Slot {
	out := map[store.Index]store.Slot{}
	for range rapid.IntRange(0, 2).Draw(t, "places") {
		x := rapid.SampledFrom(store.Indexes()).Draw(t, "index")
		out[x] = store.Slot{PK: d.p.PK + "#" + string(x), SK: strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "place")) + "#" + k.SK}
	}
	return out
}

func (d draws) cond(t *rapid.T) store.Cond {
	name := rapid.SampledFrom([]string{"n", "x", "y", "z"}).Draw(t, "field")
	switch rapid.IntRange(0, 5).Draw(t, "op") {
	case 0:
		return store.Absent()
	case 1:
		return store.Present()
	case 2:
		return store.FieldIs(name, d.value(t, name))
	case 3:
		return store.FieldNot(name, d.value(t, name))
	case 4:
		return store.Cond{Op: store.OpIn, Field: name, Set: []string{"a", rapid.SampledFrom([]string{"", "b"}).Draw(t, "member")}}
	}
	return store.FieldLess(name, d.value(t, "x"))
}

func (d draws) write(t *rapid.T, k store.Key) store.Write {
	w := store.Write{Item: store.Item{Key: k}}
	for range rapid.SampledFrom([]int{0, 0, 1, 1, 2}).Draw(t, "conditions") {
		w.If = append(w.If, d.cond(t))
	}
	switch rapid.IntRange(0, 6).Draw(t, "act") {
	case 0:
		w.Act = store.Delete
	case 1:
		w.Act = store.Check
		if len(w.If) == 0 {
			w.If = []store.Cond{d.cond(t)}
		}
	case 2, 3, 4:
		w.Act = store.Put
		w.Item.Attr = d.attrs(t)
		w.Item.Doc = rapid.SampledFrom([][]byte{nil, []byte("d1"), []byte("d2")}).Draw(t, "doc")
		w.Item.Index = d.places(t, k)
		w.Item.Expires = rapid.SampledFrom([]time.Time{{}, time.Unix(5e9, 0).UTC()}).Draw(t, "expires")
	default:
		w.Act = store.Update
		w.Set = d.attrs(t)
		delete(w.Set, "n")
		switch rapid.IntRange(0, 2).Draw(t, "counter") {
		case 0:
			w.Add = map[string]int64{"n": rapid.Int64Range(-1, 2).Draw(t, "by")}
		case 1:
			w.Unset = []string{"n"}
		}
		w.Item.Doc = rapid.SampledFrom([][]byte{nil, {}, []byte("d3")}).Draw(t, "doc")
		if rapid.Bool().Draw(t, "replaced") {
			w.Item.Index = d.places(t, k)
		}
	}
	return w
}

func (d draws) transaction(t *rapid.T) []store.Write {
	var ws []store.Write
	seen := map[store.Key]bool{}
	for range rapid.IntRange(1, 4).Draw(t, "writes") {
		if k := d.key(t); !seen[k] {
			seen[k] = true
			ws = append(ws, d.write(t, k))
		}
	}
	return ws
}

func (d draws) query(t *rapid.T) store.Query {
	q := store.Query{PK: d.p.PK, Reverse: rapid.Bool().Draw(t, "reverse"), Limit: rapid.IntRange(0, 3).Draw(t, "limit")}
	sks := rapid.SampledFrom([]string{"", "A", "B", "C", "C#2", "D"})
	if rapid.Bool().Draw(t, "ranged") {
		q.From, q.To = sks.Draw(t, "from"), sks.Draw(t, "to")
	} else {
		q.Prefix = sks.Draw(t, "prefix")
	}
	return q
}

// testModel walks random sequences of transactions and queries. The counter n is
// always a number, so that every transaction is one the port can run.
func testModel(t *testing.T, s *suite) {
	setChecks(t, s.o.Sequences)
	rapid.Check(t, func(rt *rapid.T) {
		d := draws{store.For("m" + strconv.FormatInt(tenants.Add(1), 10)).Project("p")}
		m := model{}
		rt.Repeat(map[string]func(*rapid.T){
			"transact": func(rt *rapid.T) {
				ws := d.transaction(rt)
				refused, current := m.transact(ws)
				err := s.Transact(t.Context(), ws...)
				if refused < 0 {
					if err != nil {
						rt.Fatalf("transact %+v: %v", ws, err)
					}
					return
				}
				e, is := errors.AsType[*store.ConflictError](err)
				if !is {
					rt.Fatalf("got %v, want a conflict at %d", err, refused)
				}
				if current.Key = ws[refused].Item.Key; e.Write != refused || diff(current, e.Current) != "" {
					rt.Fatalf("write %d was refused by %+v, want %d\n%s", e.Write, e.Failed, refused, diff(current, e.Current))
				}
			},
			"get": func(rt *rapid.T) {
				k := d.key(rt)
				want, exists := m[k]
				got, err := s.Get(t.Context(), k)
				if !exists && !errors.Is(err, store.ErrNotFound) {
					rt.Fatalf("get %s: %v, want ErrNotFound", k, err)
				}
				if exists && (err != nil || diff(want, got) != "") {
					rt.Fatalf("get %s: %v\n%s", k, err, diff(want, got))
				}
			},
			"query": func(rt *rapid.T) {
				q := d.query(rt)
				got, err := all(t.Context(), s, q)
				if err != nil || diff(m.query(q), got) != "" {
					rt.Fatalf("query %+v: %v\n%s", q, err, diff(m.query(q), got))
				}
			},
		})
		for _, x := range store.Indexes() {
			q := store.Query{Index: x, PK: d.p.PK + "#" + string(x), Limit: 2}
			s.o.Await(t, s.Store, func() bool {
				got, err := all(t.Context(), s, q)
				if err != nil {
					rt.Fatalf("query %+v: %v", q, err)
				}
				return diff(m.query(q), got) == ""
			})
		}
	})
}
