package local_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

// read looks at the durable state, again when the control plane went away over it.
func (r *rig) read(f func(db *sqlite.Store) error) error {
	for end := time.Now().Add(3 * time.Hour); ; time.Sleep(100 * time.Millisecond) {
		p := r.now()
		if p == nil && time.Now().Before(end) {
			continue
		}
		if p == nil {
			return errors.New("no control plane came up")
		}
		err := f(p.db.Store)
		if err == nil || errors.Is(err, store.ErrNotFound) || r.now() == p {
			return err
		}
	}
}

func (r *rig) items(q store.Query) (out []store.Item) {
	r.t.Helper()
	err := r.read(func(db *sqlite.Store) error {
		out = nil
		return store.All(r.t.Context(), db, q, func(it store.Item) bool {
			out = append(out, it)
			return true
		})
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// rows reads all records of a kind in the task's partition, in order.
func rows[T any](r *rig, t id.Task, prefix string) []T {
	r.t.Helper()
	return rowsAt[T](r, store.For(tenant).Task(t).PK, prefix)
}

// snapshot is everything durable, but for what the engine and the clock keep.
func (r *rig) snapshot() string {
	r.t.Helper()
	var b strings.Builder
	for _, pk := range []string{store.For(tenant).Project(project).PK} {
		r.dump(&b, pk)
	}
	for _, l := range rowsAt[app.Live](r, store.For(tenant).Project(project).PK, "LIVE#") {
		r.dump(&b, store.For(tenant).Task(l.ID).PK)
	}
	return b.String()
}

// snapshotOf is everything durable about one task.
func (r *rig) snapshotOf(t id.Task) string {
	r.t.Helper()
	var b strings.Builder
	r.dump(&b, store.For(tenant).Task(t).PK)
	return b.String()
}

func (r *rig) dump(b *strings.Builder, pk string) {
	for _, it := range r.items(store.Query{PK: pk}) {
		fmt.Fprintf(b, "%s %v %s\n", it.Key, it.Attr, it.Doc)
	}
}

func rowsAt[T any](r *rig, pk, prefix string) []T {
	r.t.Helper()
	var out []T
	for _, it := range r.items(store.Query{PK: pk, Prefix: prefix}) {
		var v T
		if err := json.Unmarshal(it.Doc, &v); err != nil {
			r.t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}
