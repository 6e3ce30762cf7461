package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

func isFault(t testing.TB, name string, err error, k fault.Kind, says string) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != k || !strings.Contains(f.Public, says) {
		t.Errorf("%s: got %v (%s), want %s saying %q", name, err, fault.KindOf(err), k, says)
	}
}

func unavailable(t testing.TB, name string, err error, says string) {
	t.Helper()
	isFault(t, name, err, fault.Unavailable, says)
}

func openErr(t testing.TB, path string, opts ...sqlite.Option) error {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, func() time.Time { return noon }, opts...)
	if err == nil {
		s.Close()
		t.Fatalf("%s was opened", path)
	}
	return err
}

// filled makes a store with some rows and closes it.
func filled(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	p := store.For("t").Project("p")
	for i := range int64(50) {
		w := store.Write{Act: store.Put, Item: store.Item{Key: p.Turn(i), Attr: store.Attr{"n": i}, Doc: make([]byte, 3000)}}
		if err := s.Transact(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func execSQL(t testing.TB, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsNotAStoreIsRefusedAndLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T) string
		says string
	}{
		"a text file": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "notes.txt")
			if err := os.WriteFile(path, []byte(strings.Repeat("shopping list\n", 100)), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, "is damaged"},
		"another program's database": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "other.db")
			execSQL(t, path, "CREATE TABLE item (pk TEXT)")
			return path
		}, "another program"},
		"a newer format": {func(t *testing.T) string {
			path := filled(t)
			execSQL(t, path, fmt.Sprintf("PRAGMA user_version=%d", sqlite.Schema+1))
			return path
		}, "install a newer lazy"},
		"a damaged header": {func(t *testing.T) string {
			path := filled(t)
			b := read(t, path)
			copy(b[90:], bytes.Repeat([]byte{0xa5}, 600))
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, "is damaged"},
		"a table gone": {func(t *testing.T) string {
			path := filled(t)
			execSQL(t, path, "ALTER TABLE item RENAME TO thing")
			return path
		}, "is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.make(t)
			before := read(t, path)
			isFault(t, "open", openErr(t, path), fault.Invalid, c.says)
			if !bytes.Equal(before, read(t, path)) {
				t.Error("the file was changed")
			}
		})
	}
	dir := t.TempDir()
	isFault(t, "a folder", openErr(t, dir), fault.Invalid, "is not a file")
	unavailable(t, "no folder", openErr(t, filepath.Join(dir, "none", "store.db")), "check that its folder exists")
}

// Damage inside is met when it is read, and is nobody's request's fault.
func TestDamageFoundLaterIsAFault(t *testing.T) {
	path := filled(t)
	b := read(t, path)
	for at := 2 * 4096; at < len(b); at += 4096 {
		copy(b[at:], bytes.Repeat([]byte{0xa5}, 200))
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	p := store.For("t").Project("p")
	_, err := s.Get(t.Context(), p.Turn(3))
	unavailable(t, "get", err, "is damaged")
	_, err = s.Query(t.Context(), store.Query{PK: p.PK})
	unavailable(t, "query", err, "is damaged")
	unavailable(t, "transact", s.Transact(t.Context(), put(p.Turn(3), nil, store.Present())), "is damaged")
}

func TestAFullDiskRefusesWholeTransactionsAndNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, sqlite.WithMaxPages(40))
	p := store.For("t").Project("p")
	if err := s.Transact(t.Context(), put(p.Meta(), store.Attr{"n": int64(1)})); err != nil {
		t.Fatal(err)
	}
	// Racing large and small ones: a small one fits whoever it shares a commit with.
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			large := store.Write{Act: store.Put, Item: store.Item{Key: p.Key(fmt.Sprint("BIG", i)), Doc: make([]byte, 350_000)}}
			unavailable(t, "a large document", s.Transact(t.Context(), put(p.Key(fmt.Sprint("WITH", i)), nil), large), "is full; make room")
		})
		wg.Go(func() {
			if err := s.Transact(t.Context(), put(p.Key(fmt.Sprint("SMALL", i)), nil)); err != nil {
				t.Errorf("a small row beside it: %v", err)
			}
		})
	}
	wg.Wait()
	check := func(s *sqlite.Store) {
		t.Helper()
		n := 0
		if err := store.All(t.Context(), s, store.Query{PK: p.PK}, func(it store.Item) bool {
			if strings.HasPrefix(it.Key.SK, "BIG") || strings.HasPrefix(it.Key.SK, "WITH") {
				t.Errorf("%s is there", it.Key)
			}
			n++
			return true
		}); err != nil || n != 13 {
			t.Errorf("%d rows, %v", n, err)
		}
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(open(t, path))
	sound(t, path)
}

func TestALockedStoreIsAFault(t *testing.T) {
	path := filled(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lock := func() {
		t.Helper()
		if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
	}
	lock()
	unavailable(t, "open", openErr(t, path, sqlite.WithPatience(time.Millisecond)), "is locked by another process")
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	s := open(t, path, sqlite.WithPatience(time.Millisecond))
	lock()
	k := store.For("t").Project("p").Meta()
	unavailable(t, "transact", s.Transact(t.Context(), put(k, nil)), "is locked by another process")
	if _, err := s.Get(t.Context(), k); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a read beside the lock: %v", err)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := s.Transact(t.Context(), put(k, nil)); err != nil {
		t.Errorf("after the lock: %v", err)
	}
}
